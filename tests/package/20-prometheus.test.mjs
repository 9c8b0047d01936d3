// A real Prometheus beside a server that is installed from its package: it scrapes, takes the rules, and answers every question of the
// dashboard.

import assert from 'node:assert/strict';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DebianMachine, packageFor, repository } from '../support/debian.mjs';
import { eventually } from '../support/wait.mjs';

const SCRAPE = `
global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: [/usr/share/holdfast/prometheus/*.yml]
scrape_configs:
  - job_name: holdfast
    static_configs: [{ targets: ["127.0.0.1:9464"] }]
`;

test('Prometheus scrapes the server, takes the rules, and answers what the dashboard asks', async (t) => {
	const machine = await DebianMachine.start(t, '12', (share) => {
		cpSync(packageFor('12'), join(share, 'holdfast.deb'));
		writeFileSync(join(share, 'prometheus.yml'), SCRAPE);
		return ['holdfast.deb', 'prometheus'];
	});
	machine.run('apt-get -y install /share/holdfast.deb prometheus; cp /share/prometheus.yml /etc/prometheus/; systemctl restart prometheus', { timeout: 300_000 });
	machine.run('echo metrics-listen = 127.0.0.1:9464 >>/etc/holdfast/holdfast.conf; systemctl restart holdfast');
	const ask = (question) => machine.try(`promtool query instant http://127.0.0.1:9090 '${question}'`).stdout;
	const value = (question) => Number(/=> (\S+) @/.exec(ask(question))?.[1]);
	await eventually(() => value('up{job="holdfast"}') === 1, 'the server to be scraped', 60_000);
	for (let n = 0; n < 3; n++) {
		machine.run(`echo '{"type": "x-note", "data": {"n": ${n}}}' | holdfast append noted --create --data /var/lib/holdfast`);
	}
	await eventually(() => value('holdfast_events_appended_total') === 3, 'the events to be counted', 60_000);
	assert.equal(value('holdfast_sessions'), 1);
	assert.equal(value('holdfast_append_duration_seconds_count'), 3);
	await eventually(() => value('histogram_quantile(0.99, sum by (le) (rate(holdfast_sync_duration_seconds_bucket[1m])))') > 0, 'a quantile', 60_000);

	assert.match(machine.run('promtool check rules /usr/share/holdfast/prometheus/holdfast.rules.yml'), /SUCCESS: \d+ rules found/);
	const rules = readFileSync(join(repository, 'dist/prometheus/holdfast.rules.yml'), 'utf8');
	const names = [...rules.matchAll(/alert: (\w+)/g)].map(([, name]) => name);
	const loaded = machine.run('exec 3<>/dev/tcp/127.0.0.1/9090; printf "GET /api/v1/rules HTTP/1.0\\r\\n\\r\\n" >&3; cat <&3');
	assert.deepEqual(names.filter((name) => !loaded.includes(`"name":"${name}"`)), []);
	assert.doesNotMatch(loaded, /"health":"err"/);
	const { panels } = JSON.parse(readFileSync(join(repository, 'dist/grafana/holdfast.json'), 'utf8'));
	for (const { expr } of panels.flatMap(({ targets }) => targets ?? [])) {
		const question = expr.replaceAll('$instance', '.*').replaceAll('$__rate_interval', '1m');
		const { status, stderr } = machine.try(`promtool query instant http://127.0.0.1:9090 '${question}'`);
		assert.equal(status, 0, `${question}: ${stderr}`);
	}
	machine.run('systemctl stop holdfast');
	await eventually(() => ask('ALERTS{alertname="HoldfastDown"}').includes('pending'), 'the alert that it is down', 60_000);
});
