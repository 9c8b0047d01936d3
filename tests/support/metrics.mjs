// GET /metrics, read as strictly as Prometheus' text format 0.0.4 has it.

import assert from 'node:assert/strict';

const SAMPLE = /^([a-zA-Z_][a-zA-Z0-9_]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="[^"\\\n]*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="[^"\\\n]*")*\})? ([0-9.e+-]+|\+Inf)$/;

/** The name of the family that a sample belongs to. */
function familyOf(name, types) {
	const base = name.replace(/_(bucket|sum|count)$/, '');
	return types.get(base) === 'histogram' ? base : name;
}

function checkHistogram(name, samples) {
	const buckets = [...samples].filter(([key]) => key.startsWith(`${name}_bucket{`));
	const bounds = buckets.map(([key]) => Number(/le="(.*)"/.exec(key)[1].replace('+Inf', 'Infinity')));
	assert.ok(bounds.every((b, i) => i === 0 || b > bounds[i - 1]), `${name}: bounds grow`);
	assert.equal(bounds.at(-1), Infinity, name);
	assert.ok(buckets.every(([, v], i) => i === 0 || v >= buckets[i - 1][1]), `${name}: buckets add up`);
	assert.equal(samples.get(`${name}_count`), buckets.at(-1)[1], name);
	assert.ok(samples.has(`${name}_sum`), name);
}

/** Checks the text and gives {samples: Map of `name{labels}` to value, types: Map of name to type}. */
export function parseMetrics(text) {
	const samples = new Map();
	const types = new Map();
	let family = '';
	assert.ok(text.endsWith('\n'), 'it ends with a newline');
	for (const line of text.slice(0, -1).split('\n')) {
		const help = /^# HELP ([a-zA-Z_]\w*) (\S.*)$/.exec(line);
		const type = /^# TYPE ([a-zA-Z_]\w*) (counter|gauge|histogram)$/.exec(line);
		if (help) {
			assert.ok(!types.has(help[1]), `${help[1]} is told of once`);
			family = help[1];
		} else if (type) {
			assert.equal(type[1], family, 'TYPE follows HELP');
			types.set(type[1], type[2]);
		} else {
			const sample = SAMPLE.exec(line);
			assert.ok(sample, `not a sample: ${line}`);
			assert.equal(familyOf(sample[1], types), family, `${line} stands with its family`);
			assert.ok(types.get(family) !== 'counter' || /_total$/.test(family), `${family}: a counter ends with _total`);
			const key = sample[1] + (sample[2] ?? '');
			assert.ok(!samples.has(key), `${key} twice`);
			samples.set(key, Number(sample[3].replace('+Inf', 'Infinity')));
			assert.ok(!Number.isNaN(samples.get(key)), line);
		}
	}
	[...types].filter(([, kind]) => kind === 'histogram').forEach(([name]) => checkHistogram(name, samples));
	return { samples, types };
}

/** A server's metrics now: a function of `name{labels}`, without `holdfast_`, that gives 0 for what is not there. */
export async function readMetrics(server) {
	const { status, body, headers } = await server.request('GET', '/metrics');
	assert.equal(status, 200, JSON.stringify(body));
	assert.equal(headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
	const { samples } = parseMetrics(body);
	return (name) => samples.get(`holdfast_${name}`) ?? samples.get(name) ?? 0;
}
