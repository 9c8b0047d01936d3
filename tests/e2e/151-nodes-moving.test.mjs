// What comes to a node in the middle of a change: a session goes, or news of it is still on the way.

import assert from 'node:assert/strict';
import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { after, test } from 'node:test';
import WebSocket from 'ws';
import { Link } from '../nodes/link.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { NODE_TIMES, nodeAddress, startNodes } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input, post } from '../support/producer.mjs';
import { Server } from '../support/server.mjs';
import { bearer } from '../support/tokens.mjs';
import { defer, eventually, patience } from '../support/wait.mjs';

const postgres = Postgres.start({ after });

/** The header with which a node asks another (proto/nodes.md). */
function signed(database, method, target) {
	const key = Buffer.from(postgres.ask(database, "SELECT encode(bytes, 'hex') FROM holdfast_secret WHERE name = 'node'"), 'hex');
	const claims = { grant: { sub: '', holdfast: { role: 'admin', sessions: ['*'] } }, address: '127.0.0.1', https: false, iat_ms: Date.now(), for: createHash('sha256').update(`${method} ${target}`).digest('base64url') };
	const text = Buffer.from(JSON.stringify(claims)).toString('base64url');
	return { 'holdfast-node': `${text}.${createHmac('sha256', key).update(`holdfast-node-v1.${text}`).digest('base64url')}` };
}

test('a node that is asked to follow a session, and has it not, looks for it', async (t) => {
	const [a] = await startNodes(t, postgres, 1, { database: 'follow' });
	const target = '/api/sessions/none/ws';
	const ws = new WebSocket(`ws://${a.address}${target}`, ['holdfast-node.v1'], { headers: signed('follow', 'GET', target) });
	defer(t, () => ws.terminate());
	const [code, reason] = await new Promise((resolve, reject) => ws.on('close', (...told) => resolve(told)).on('error', reject));
	assert.deepEqual([code, String(reason)], [4404, 'not_found']);
	assert.equal((await a.request('GET', '/api/sessions/none')).status, 404);
});

test('a request whose node lets go of the session before its end is refused for now, comes again, and its event is there once', async (t) => {
	const address = postgres.address('moving').replace(/^host=\S+/, '');
	const line = await Link.open({ host: '127.0.0.1', port: 0 }, { path: `${postgres.host}/.s.PGSQL.5432` });
	defer(t, () => line.close());
	const store = `host=127.0.0.1 port=${line.port}${address}`;
	const a = await Server.start(t, { args: ['--store', store, '--node-listen', nodeAddress(), '--limit', `node_lease_ms=${2000 * patience}`] });
	const body = JSON.stringify({ ...input.note({}), key: 'k' });
	const append = () => a.request('POST', '/api/sessions/s/events', { body, headers: { 'content-type': 'application/json' } });
	await eventually(async () => (await a.request('POST', '/api/sessions', { json: { id: 's' } })).status !== 503, 'the session to be made');
	const { hostname, port } = new URL(a.url);
	const request = http.request({ method: 'POST', hostname, port, path: '/api/sessions/s/events', headers: { ...bearer(a.token), 'content-type': 'application/json', 'content-length': body.length } });
	const answer = once(request, 'response');
	request.write(body.slice(0, 5));
	await eventually(async () => (await a.request('GET', '/api/sessions/s')).status === 200, 'the session to be here');
	line.cut('hole');
	await eventually(() => / lets go of its 1 sessions/.test(a.stderr), 'it to let go');
	request.end(body.slice(5));
	const [response] = await answer;
	let text = '';
	for await (const piece of response) {
		text += piece;
	}
	assert.deepEqual([response.statusCode, response.headers['retry-after'], JSON.parse(text).error.code], [503, '1', 'owner_unreachable']);
	line.heal();
	const taken = await eventually(async () => {
		const { status, body: told } = await append();
		return status === 200 && told;
	}, 'it to be taken');
	assert.deepEqual([taken.acks[0], taken.max_seq], [{ seq: 1, duplicate: false }, 1]);
	await a.stop();
});

test('who comes to a node to which the news is still on its way is told of what was shown elsewhere', async (t) => {
	const database = postgres.address('late');
	const limits = [...NODE_TIMES, '--limit', 'node_silence_ms=60000'];
	const [own, told] = [nodeAddress(), nodeAddress()];
	const place = (address) => ({ host: address.split(':')[0], port: Number(address.split(':')[1]) });
	const line = await Link.open(place(told), place(own));
	defer(t, () => line.close());
	const a = await Server.start(t, { args: ['--store', database, '--node-listen', own, '--node-address', told, ...limits] });
	const b = await Server.start(t, { args: ['--store', database, '--node-listen', nodeAddress(), ...limits] });
	await a.createSession({ id: 's' });
	await post(a, 's', input.note({ n: 1 }));
	const first = await Observer.connect(t, b, 's');
	await first.loadAll();
	line.cut('hole down');
	await post(a, 's', input.note({ n: 2 }));
	const there = await Observer.connect(t, a, 's');
	const held = await there.loadAll();
	const coming = Observer.connect(t, b, 's', { held, epoch: there.epoch });
	await eventually(async () => (await readMetrics(b))('connections') >= 3, 'it to come');
	assert.equal(first.last, 1);
	line.heal();
	const observer = await coming;
	assert.equal(observer.hello.max_seq, 2);
	await observer.loadAll();
	assert.deepEqual([observer.resets, observer.last], [[], 2]);
	await first.waitForSeq(2);
});
