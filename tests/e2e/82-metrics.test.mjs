// GET /metrics: its text is right, each figure goes up by exactly what was done, and only an admin reads it.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import WebSocket from 'ws';
import { parseMetrics, readMetrics } from '../support/metrics.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { Server, demoAgent, runToEnd } from '../support/server.mjs';
import { ownToken } from '../support/tokens.mjs';
import { eventually } from '../support/wait.mjs';

/** What `names` went up by between two readings. */
const grown = (before, after, ...names) => names.map((name) => after(name) - before(name));

test('the text is as Prometheus reads it, with every metric from the start', async (t) => {
	const server = await Server.start(t);
	const { body } = await server.request('GET', '/metrics');
	const { samples, types } = parseMetrics(body);
	const page = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8');
	assert.deepEqual([...types.keys()].filter((name) => name.startsWith('holdfast_') && !page.includes(`\`${name}`)), [], 'each is in docs/metrics.md');
	for (const name of ['build_info', 'sessions', 'sessions_loaded', 'observers', 'events_appended_total', 'events_delivered_total', 'bytes_sent_total',
		'loads_total', 'resets_total', 'closes_total', 'refusals_total', 'limit_reached_total', 'append_duration_seconds', 'sync_duration_seconds', 'sync_records',
		'store_backlog_bytes', 'store_failed', 'agents_running', 'permissions_pending', 'loop_lag_seconds', 'sessions_damaged', 'observers_behind', 'agent_starts_total', 'prompts_waiting', 'permission_wait_seconds']) {
		assert.ok(types.has(`holdfast_${name}`), name);
	}
	const protocol = readFileSync(new URL('../../proto/protocol.md', import.meta.url), 'utf8');
	const [, codes] = /\| code \| HTTP \|[^\n]*\n([^]*?)\n\n/.exec(`${protocol}\n\n`);
	for (const [, code] of codes.matchAll(/^\| `(\w+)`/gm)) {
		assert.equal(samples.get(`holdfast_refusals_total{code="${code}"}`), 0, code);
	}
	for (const code of [1000, 1001, 1006, 1009, 1013, 4401, 4403, 4404, 'other']) {
		assert.equal(samples.get(`holdfast_closes_total{code="${code}"}`), 0, String(code));
	}
	assert.equal(samples.get('process_open_fds'), readdirSync(`/proc/${server.pid}/fd`).length);
	assert.ok(samples.get('process_resident_memory_bytes') > 1 << 20);
	assert.ok(Math.abs(samples.get('process_start_time_seconds') - Date.now() / 1000) < 600);
	assert.ok(samples.get('process_max_fds') > 0);
	const started = samples.get('process_cpu_seconds_total');
	await eventually(async () => (await readMetrics(server))('process_cpu_seconds_total') > started, 'the processor time of the requests');
	const head = await server.request('HEAD', '/metrics');
	assert.deepEqual([head.status, head.body], [200, '']);
	assert.equal((await server.request('POST', '/metrics')).status, 405);
	const promtool = spawnSync('promtool', ['check', 'metrics'], { input: body });
	assert.ok(promtool.error || promtool.status === 0, String(promtool.stderr));
});

test('only an admin reads it', async (t) => {
	const server = await Server.start(t);
	for (const role of ['observer', 'controller', 'producer']) {
		const { status, body } = await server.request('GET', '/metrics', { headers: { authorization: `Bearer ${ownToken(server, role)}` } });
		assert.deepEqual([status, body.error.code], [403, 'forbidden'], role);
	}
	assert.equal((await server.request('GET', '/metrics', { headers: { authorization: undefined } })).status, 401);
	assert.equal((await server.request('GET', '/metrics', { headers: { authorization: `Bearer ${ownToken(server, 'admin')}` } })).status, 200);
});

test('events, loads, resets, sessions and observers are counted once each', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession({ title: 'a secret title' });
	await post(server, id, [1, 2, 3].map((n) => input.note({ n })));
	const watcher = await Observer.connect(t, server, id);
	await watcher.loadAll();
	const before = await readMetrics(server);
	assert.deepEqual(['sessions', 'sessions_loaded', 'observers{transport="websocket"}'].map(before), [1, 1, 1]);

	const producer = await Producer.connect(t, server, id);
	await producer.append(input.note({ n: 4 }), input.note({ n: 5 }));
	await post(server, id, input.note({ n: 6 }));
	await watcher.waitForSeq(6);
	const late = await Observer.connect(t, server, id);
	await late.load({ limit: 3 }); // the newest: 3 events
	await late.load({ before_seq: 4 }); // 3
	await late.load({ after_seq: 4, epoch: late.epoch }); // 2
	await late.load({ after_seq: 99, epoch: late.epoch }); // ahead: 6
	await late.load({ after_seq: 1, epoch: '0123456789abcdef' }); // epoch: 6
	assert.equal((await server.request('GET', `/api/sessions/${id}/events?after_seq=5`)).body.events.length, 1);
	const after = await readMetrics(server);

	assert.deepEqual(grown(before, after, 'events_appended_total'), [3]);
	assert.deepEqual(grown(before, after, 'events_delivered_total'), [3 + 3 + 3 + 2 + 6 + 6 + 1]);
	assert.deepEqual(grown(before, after, 'loads_total{kind="newest"}', 'loads_total{kind="before"}', 'loads_total{kind="after"}'), [1, 1, 4]);
	assert.deepEqual(grown(before, after, 'resets_total{reason="ahead"}', 'resets_total{reason="epoch"}', 'resets_total{reason="pruned"}'), [1, 1, 0]);
	assert.deepEqual(grown(before, after, 'append_duration_seconds_count', 'observers{transport="websocket"}', 'producers'), [2, 1, 1]);
	assert.deepEqual(grown(before, after, 'sync_records_sum', 'sync_duration_seconds_count'), [3, after('sync_records_count') - before('sync_records_count')]);
	assert.ok(after('bytes_sent_total') > before('bytes_sent_total') && after('bytes_received_total') > before('bytes_received_total'));
	assert.ok(after('loop_lag_seconds_count') > before('loop_lag_seconds_count'));

	await late.close();
	await producer.close();
	assert.equal((await server.request('DELETE', `/api/sessions/${id}`)).status, 204);
	await watcher.waitClosed();
	await eventually(async () => (await readMetrics(server))('closes_total{code="4404"}') === 1, 'the close to be counted');
	const end = await readMetrics(server);
	assert.deepEqual(grown(after, end, 'closes_total{code="1000"}'), [2]);
	assert.deepEqual(['sessions', 'sessions_loaded', 'observers{transport="websocket"}', 'producers'].map(end), [0, 0, 0, 0]);
	const { body } = await server.request('GET', '/metrics');
	assert.ok(!body.includes(id) && !body.includes('secret'));
});

test('refusals are counted by their code, closes by theirs, and codes that a peer makes up as one', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id);
	const before = await readMetrics(server);
	assert.equal((await server.request('GET', '/api/sessions/nobody')).status, 404);
	assert.equal((await server.request('POST', '/api/sessions', { json: { id } })).status, 409);
	await observer.send('nonsense');
	await observer.waitFor('error');
	await observer.send('prompt', { message: 'x', prompt_id: 'p' });
	await observer.waitFor((f) => f.data.code === 'no_agent');
	observer.drop();
	for (const code of [3000, 3001, 4999]) {
		const socket = await Observer.connect(t, server, id);
		await socket.close(code);
	}
	await eventually(async () => (await readMetrics(server))('closes_total{code="1006"}') === 1, 'the broken socket');
	const after = await readMetrics(server);
	assert.deepEqual(grown(before, after, 'refusals_total{code="not_found"}', 'refusals_total{code="session_exists"}', 'refusals_total{code="unknown_type"}',
		'refusals_total{code="no_agent"}', 'closes_total{code="other"}'), [1, 1, 1, 1, 3]);
});

test('agents and their questions are counted while they are there', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	await observer.prompt('permission');
	const asked = await observer.waitForEvent('permission_request');
	const during = await readMetrics(server);
	assert.deepEqual([during('agents_running'), during('permissions_pending')], [1, 1]);
	await observer.send('permission_answer', { request_id: asked.data.request_id, option_id: asked.data.options[0].option_id });
	await observer.waitForEvent('turn_end');
	const answered = await readMetrics(server);
	assert.deepEqual(['permissions_pending', 'permission_wait_seconds_count', 'permission_wait_seconds_bucket{le="+Inf"}'].map(answered), [0, 1, 1]);
	await server.request('DELETE', `/api/sessions/${id}`);
	await eventually(async () => (await readMetrics(server))('agents_running') === 0, 'the agent to be gone');
});

test('starts of agents count by how they went, and prompts while they wait', async (t) => {
	const server = await Server.start(t, { agent: demoAgent() });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	for (const [i, message] of ['hang', 'first', 'second'].entries()) {
		observer.send('prompt', { message, prompt_id: `p${i}` });
	}
	await eventually(async () => (await readMetrics(server))('prompts_waiting') === 2, 'two to wait');
	await eventually(async () => (await readMetrics(server))('agent_starts_total{result="started"}') === 1, 'it to answer');
	const read = await readMetrics(server);
	assert.deepEqual(['agent_starts_total{result="started"}', 'agent_starts_total{result="failed"}', 'agents_running'].map(read), [1, 0, 1]);
	await eventually(async () => (await readMetrics(server))('observers_behind') === 0, 'it to have everything');
	await server.request('DELETE', `/api/sessions/${id}`);
	await eventually(async () => (await readMetrics(server))('prompts_waiting') === 0, 'none to wait');

	const broken = await Server.start(t, { agent: 'exit 3' });
	const other = await broken.createSession();
	const watcher = await Observer.connect(t, broken, other.id);
	await watcher.loadAll();
	watcher.send('prompt', { message: 'Hello', prompt_id: 'p' });
	await eventually(async () => (await readMetrics(broken))('agent_starts_total{result="failed"}') === 1, 'its end to be counted');
	assert.equal((await readMetrics(broken))('agent_starts_total{result="started"}'), 0);
});

test('--metrics-listen serves the metrics without a token, and nothing else', async (t) => {
	const server = await Server.start(t, { args: ['--metrics-listen', '127.0.0.1:0'] });
	const [, url] = await eventually(() => /metrics on (http:\S+)\/metrics/.exec(server.stderr), 'the address of the metrics');
	const answer = await fetch(`${url}/metrics`);
	assert.equal(answer.status, 200);
	assert.ok(parseMetrics(await answer.text()).types.has('holdfast_sessions'));
	assert.deepEqual(await Promise.all(['/healthz', '/readyz'].map(async (path) => (await fetch(url + path)).status)), [200, 200]);
	const { id } = await server.createSession();
	for (const path of ['/', '/api/sessions', `/api/sessions/${id}`, `/api/sessions/${id}/ws`, '/api/events', '/api/login', '/metrics/', '/observe.html']) {
		for (const authorization of [undefined, `Bearer ${ownToken(server, 'admin')}`]) {
			const { status } = await fetch(url + path, { headers: authorization ? { authorization } : {} });
			assert.equal(status, 404, path);
		}
	}
	const socket = new WebSocket(`${url.replace('http', 'ws')}/api/sessions/${id}/ws`);
	const [, response] = await once(socket, 'unexpected-response');
	assert.equal(response.statusCode, 404);
	assert.equal((await fetch(`${url}/metrics`, { headers: { origin: 'https://attacker.example' } })).status, 403);
	assert.equal((await server.request('GET', '/metrics', { headers: { authorization: undefined } })).status, 401, 'elsewhere it needs one');
	const { code, stderr } = await runToEnd(['check-config', '--metrics-listen', 'unix:/x']);
	assert.equal(code, 2);
	assert.match(stderr, /--metrics-listen/);
});

test('with --auth off on loopback, the metrics may be read from other machines', async (t) => {
	const server = await Server.start(t, { args: ['--auth', 'off', '--metrics-listen', '0.0.0.0:0'] });
	const find = () => /metrics on http:\/\/0\.0\.0\.0:(\d+)\/metrics/.exec(server.stderr);
	await eventually(() => find(), 'the server to say where');
	const [, port] = find();
	assert.equal((await fetch(`http://127.0.0.1:${port}/metrics`)).status, 200);
	assert.equal((await fetch(`http://127.0.0.1:${port}/api/sessions`)).status, 404);
});
