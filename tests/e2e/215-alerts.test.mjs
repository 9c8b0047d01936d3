// The alert rules for Prometheus: each fires on what a real server exports when it is ill, and none on what a healthy one exports.
// promtool of Debian's package prometheus evaluates them; the series are those of a real GET /metrics, with the labels that a scrape adds.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseMetrics } from '../support/metrics.mjs';
import { Server, scratchDir } from '../support/server.mjs';

const RULES = new URL('../../dist/prometheus/holdfast.rules.yml', import.meta.url);
const rules = readFileSync(RULES, 'utf8');
const alerts = [...rules.matchAll(/alert: (\w+)\n/g)].map(([, name]) => name);

/** The buckets of a histogram whose values are all between two bounds, `rate` of them a minute. */
const between = (name, low, rate) => (sample) => {
	const bound = new RegExp(`^holdfast_${name}_bucket\\{le="(.*)"\\}$`).exec(sample)?.[1];
	return bound && `0+${Number(bound.replace('+Inf', 'Infinity')) > low ? rate : 0}x60`;
};
/** One sample that has other values from now on. */
const only = (wanted, values) => (sample) => sample === wanted && values;

/** What is ill, by alert: functions from a sample's name to its values of an hour in promtool's notation, or nothing. */
const ILL = {
	HoldfastDown: [only('up', '0x60')],
	HoldfastJournalFails: [only('holdfast_store_failed', '1x60')],
	HoldfastSessionsDamaged: [only('holdfast_sessions_damaged', '2x60')],
	HoldfastStreamsDamaged: [only('holdfast_streams_damaged', '1x60')],
	HoldfastBlobsDamaged: [only('holdfast_blobs_damaged_total', '0x38 1x20')],
	// One refusal, the first: the series must have been there with 0 before.
	HoldfastDiskFull: [only('holdfast_refusals_total{code="disk_full"}', '0x38 1x20')],
	HoldfastSlowDisk: [between('sync_duration_seconds', 1, 10)],
	HoldfastLoopSlow: [between('loop_lag_seconds', 0.25, 10)],
	HoldfastObserversBehind: [only('holdfast_observers_behind', '50x60'), only('holdfast_observers{transport="websocket"}', '60x60'), only('holdfast_observers{transport="sse"}', '10x60')],
	HoldfastAgentsDoNotStart: [only('holdfast_agent_starts_total{result="failed"}', '0+2x60')],
	HoldfastFewDescriptors: [only('process_open_fds', '99x60'), only('process_max_fds', '100x60')],
};

/** Asks promtool which of `expected` fires 40 minutes on, and that no other does. */
function check(t, samples, ill, expected) {
	const dir = scratchDir(t);
	copyFileSync(RULES, join(dir, 'rules.yml'));
	const series = ['up', ...samples.keys()].map((sample) => {
		const [, name, labels] = /^(\w+)(?:\{(.*)\})?$/.exec(sample);
		const values = ill.map((of) => of(sample)).find(Boolean) || `${sample === 'up' ? 1 : samples.get(sample)}x60`;
		return `{ series: '${name}{job="holdfast",instance="a:1"${labels ? `,${labels}` : ''}}', values: '${values}' }`;
	});
	const tests = alerts.map((alertname) => `{ expr: 'count(ALERTS{alertname="${alertname}",alertstate="firing"}) or vector(0)', eval_time: 40m, exp_samples: [{ labels: '{}', value: ${alertname === expected ? 1 : 0} }] }`);
	const text = ['rule_files: [rules.yml]', 'evaluation_interval: 1m', 'tests:', '  - interval: 1m', '    input_series:', ...series.map((line) => `      - ${line}`),
		'    promql_expr_test:', ...tests.map((line) => `      - ${line}`)].join('\n');
	writeFileSync(join(dir, 'test.yml'), text);
	const { status, stdout, stderr, error } = spawnSync('promtool', ['test', 'rules', 'test.yml'], { cwd: dir, encoding: 'utf8' });
	assert.ifError(error);
	assert.equal(status, 0, `${expected ?? 'a healthy server'}:\n${stdout}${stderr}`);
}

test('each alert fires when it should, and no other does', async (t) => {
	const server = await Server.start(t);
	const { samples } = parseMetrics((await server.request('GET', '/metrics')).body);
	assert.deepEqual(alerts, Object.keys(ILL), 'each alert has its case');
	check(t, samples, [], undefined);
	for (const alert of alerts) {
		check(t, samples, ILL[alert], alert);
	}
});

test('the rules and the dashboard ask for nothing that a server does not export', async (t) => {
	const server = await Server.start(t);
	const { samples } = parseMetrics((await server.request('GET', '/metrics')).body);
	const names = new Set(['up', ...[...samples.keys()].map((sample) => sample.replace(/\{.*/, ''))]);
	const { panels } = JSON.parse(readFileSync(new URL('../../dist/grafana/holdfast.json', import.meta.url), 'utf8'));
	const asked = [...rules.matchAll(/expr: (.*)/g)].map(([, expr]) => expr).concat(panels.flatMap(({ targets }) => (targets ?? []).map(({ expr }) => expr)));
	assert.ok(asked.length > 30);
	for (const expr of asked) {
		const unknown = [...expr.matchAll(/\b(?:holdfast|process)_\w+/g)].map(([name]) => name).filter((name) => !names.has(name));
		assert.deepEqual(unknown, [], expr);
	}
	for (const [, label, value] of rules.matchAll(/\{(code|result)="(\w+)"\}/g)) {
		assert.ok([...samples.keys()].some((sample) => sample.includes(`${label}="${value}"`)), `${label} ${value}`);
	}
});
