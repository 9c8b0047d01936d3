// Webhooks: what is told and to whom, in which order, signed; what a receiver that fails gets; and that nothing is lost when the server dies.

import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { readMetrics } from '../support/metrics.mjs';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, demoAgent, runToEnd, scratchDir } from '../support/server.mjs';
import { makeCert } from '../support/tls.mjs';
import { eventually, patience } from '../support/wait.mjs';
import { Receiver, assertTold, expected, newSecret, short } from '../support/webhook_receiver.mjs';

const SOON = ['--limit', 'webhook_retry_ms=1,webhook_retry_max_ms=50'];
const ask = (id) => ({ type: 'permission_request', data: { request_id: id, tool_call: { tool_call_id: id }, options: [{ option_id: 'a', name: 'A' }] } });
const resolve = (id) => ({ type: 'permission_resolved', data: { request_id: id, outcome: 'selected', option_id: 'a' } });
const turn = (text) => [input.text(`${text}\n\n`), input.end()];

async function start(t, { receiver: how, args = [], ...options } = {}) {
	const receiver = await Receiver.start(t, how);
	const server = await Server.start(t, { args: [...receiver.args(), ...SOON, ...args], ...options });
	await server.createSession({ id: 'one' });
	return { server, receiver };
}

const counted = async (server, result) => (await readMetrics(server))(`webhook_messages_total{result="${result}"}`);
const untilCounted = (server, result, count) => eventually(async () => (await counted(server, result)) >= count, `${count} messages to be ${result}`);
const behind = async (server) => (await readMetrics(server))('webhook_sessions_behind');

test('a question, the end of a turn and an agent that dies are told: which session, which event and when, and nothing of its content', async (t) => {
	const { server, receiver } = await start(t, { agent: demoAgent() });
	await post(server, 'one', [input.text('A secret text.\n\n'), ask('q')]);
	const [first] = await receiver.until(1);
	const { body } = await server.request('GET', '/api/sessions/one/events?after_seq=0&format=markdown');
	const question = body.events.find(({ type }) => type === 'permission_request');
	assert.deepEqual(first, {
		type: 'session.waiting', timestamp: new Date(question.ts).toISOString(),
		data: { session_id: 'one', position: { epoch: body.epoch, seq: question.seq } },
	});
	await post(server, 'one', [resolve('q'), input.end()]);
	await receiver.until(2);
	await server.createSession({ id: 'two' });
	const observer = await Observer.connect(t, server, 'two');
	await observer.loadAll();
	await observer.prompt('crash');
	await observer.waitForEvent('turn_end');
	await receiver.until(4);
	assertTold(receiver, [await expected(server, 'one'), await expected(server, 'two')]);
	assert.deepEqual(receiver.messages.map(({ type }) => type), ['session.waiting', 'session.turn_ended', 'session.agent_failed', 'session.turn_ended']);
	const [request] = receiver.requests;
	assert.equal(request.method, 'POST');
	assert.equal(request.headers['content-type'], 'application/json');
	assert.match(request.id, /^msg_[\w-]{32}$/);
	assert.ok(!receiver.requests.some((each) => each.body.includes('secret')));
	assert.equal(receiver.refused.length, 0);
	assert.equal(statSync(join(server.dataDir, 'webhooks.jsonl')).mode & 0o777, 0o600);
	assert.ok(!readFileSync(join(server.dataDir, 'webhooks.jsonl'), 'utf8').includes('/hook'), 'URLs may be secrets');
	await eventually(async () => (await behind(server)) === 0);
	assert.equal(await counted(server, 'sent'), 4);
});

test('each URL is told by itself, with every secret of the file; SIGHUP reads the file again', async (t) => {
	const [old, next] = [newSecret(), newSecret()];
	const both = await Receiver.start(t, { secrets: [old, next] });
	const onlyNext = await Receiver.start(t, { file: both.file, secrets: [next] });
	const server = await Server.start(t, { args: [...both.args(), '--webhook', onlyNext.url, ...SOON] });
	await server.createSession({ id: 'one' });
	await post(server, 'one', turn('x'));
	await both.until(1);
	await onlyNext.until(1);
	assert.equal(both.requests[0].id, onlyNext.requests[0].id);
	assert.match(both.requests[0].headers['webhook-signature'], /^v1,\S{44} v1,\S{44}$/);
	const signal = async (words) => {
		const since = server.stderr.length;
		process.kill(server.pid, 'SIGHUP');
		await eventually(() => server.stderr.slice(since).includes(words), words);
	};
	writeFileSync(both.file, `# rotated\n\n${next}\r\n`);
	await signal('the secrets of webhooks have been reloaded');
	await post(server, 'one', turn('y'));
	await both.until(2);
	await onlyNext.until(2);
	assert.match(both.requests[1].headers['webhook-signature'], /^v1,\S{44}$/);
	writeFileSync(both.file, 'nothing of use\n');
	await signal('the old secrets remain in use');
	await post(server, 'one', turn('z'));
	await onlyNext.until(3);
	assert.equal(onlyNext.refused.length, 0);
});

const FAILURES = {
	'answers 500': () => ({ status: 500 }),
	'answers 404': () => ({ status: 404 }),
	'sends elsewhere': () => ({ status: 307, headers: { location: '/elsewhere' } }),
	'resets the connection': () => (socket) => socket.resetAndDestroy(),
	'closes it without a word': () => (socket) => socket.end(),
	'closes it in the middle of the head': () => (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Le'),
	'answers with what is no HTTP': () => (socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n\r\n'),
	'answers with a head without end': () => (socket) => socket.write(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}`),
	'never answers': () => () => {},
	'answers a byte at a time, for ever': () => (socket) => {
		const timer = setInterval(() => socket.write('H'), 20);
		socket.on('close', () => clearInterval(timer));
	},
};

for (const [what, fail] of Object.entries(FAILURES)) {
	test(`a receiver that ${what} is sent the same message again, and those behind it in order; another session is not held up`, async (t) => {
		const { server, receiver } = await start(t, { args: ['--limit', `webhook_ms=${300 * patience}`] });
		await server.createSession({ id: 'other' });
		let left = 3;
		receiver.answer = ({ message }) => (message.data.session_id === 'one' && left-- > 0 ? fail() : { status: 200 });
		await post(server, 'one', turn('a'));
		await post(server, 'one', turn('b'));
		await post(server, 'other', turn('c'));
		await receiver.until(3);
		assertTold(receiver, [await expected(server, 'one'), await expected(server, 'other')]);
		const [first] = receiver.requests.filter(({ message }) => message.data.session_id === 'one');
		const same = receiver.requests.filter(({ id }) => id === first.id);
		assert.equal(same.length, 4);
		assert.ok(same.every(({ body, path }) => body === first.body && path === '/hook'), 'a redirect is not followed');
		await untilCounted(server, 'retried', 3);
		assert.equal((server.stderr.match(/the webhook at 127\.0\.0\.1 failed/g) ?? []).length, 1, 'it is told of once');
		assert.ok(!server.stderr.includes('/hook'));
	});
}

test('a huge answer is not read, and its status counts', async (t) => {
	const { server, receiver } = await start(t);
	receiver.answer = (entry) => (socket) => {
		entry.taken = true;
		socket.write('HTTP/1.1 200 OK\r\n\r\n');
		const more = () => socket.writable && socket.write('x'.repeat(1 << 20), more);
		more();
	};
	await post(server, 'one', turn('a'));
	await post(server, 'one', turn('b'));
	await receiver.until(2);
	await untilCounted(server, 'sent', 2);
	assert.equal(receiver.requests.length, 2);
});

test('Retry-After is waited for, by all sessions; 410 is the end of a message', async (t) => {
	const { server, receiver } = await start(t);
	await server.createSession({ id: 'other' });
	receiver.answer = (_, n) => (n === 1 ? { status: 429, headers: { 'retry-after': '1' } } : { status: 200 });
	await post(server, 'one', turn('a'));
	await eventually(() => receiver.requests.length === 1);
	await untilCounted(server, 'retried', 1);
	await post(server, 'other', turn('b'));
	await receiver.until(2);
	assert.ok(receiver.requests[1].at - receiver.requests[0].at >= 990, 'not before Retry-After says');
	receiver.answer = () => ({ status: 410 });
	await post(server, 'one', turn('c'));
	await untilCounted(server, 'given_up', 1);
	assert.match(server.stderr, /is not told of session\.turn_ended in session one, event \d+: answer 410/);
	receiver.answer = () => ({ status: 200 });
	await post(server, 'one', turn('d'));
	const messages = await receiver.until(3);
	assert.equal(short(messages.at(-1)), (await expected(server, 'one')).at(-1));
});

test('a message that is old is given up, but not before eight attempts', async (t) => {
	const { server, receiver } = await start(t, { args: ['--limit', 'webhook_keep_ms=0'] });
	receiver.answer = () => ({ status: 503 });
	await post(server, 'one', turn('a'));
	await untilCounted(server, 'given_up', 1);
	assert.equal(receiver.requests.length, 8);
	assert.equal(new Set(receiver.requests.map(({ id }) => id)).size, 1);
});

test('a receiver that is down, and one whose certificate is wrong, get all of it once that is mended', async (t) => {
	const { server, receiver } = await start(t, { receiver: { tls: true } });
	await receiver.close();
	const wrong = makeCert(t, { names: ['DNS:example.org'] });
	await post(server, 'one', turn('a'));
	await untilCounted(server, 'retried', 2);
	const impostor = await Receiver.start(t, { tls: true, cert: wrong, port: receiver.port });
	const before = await counted(server, 'retried');
	await untilCounted(server, 'retried', before + 3);
	assert.equal(impostor.requests.length + impostor.refused.length, 0, 'nothing is said to it');
	await impostor.close();
	await receiver.listen();
	await receiver.until(1);
	assertTold(receiver, [await expected(server, 'one')]);
	await eventually(() => server.stderr.includes('the webhook at localhost has been told everything again'));
});

test('kill -9 of the server, again and again, in the middle of everything: all is told, each id in order', async (t) => {
	const { server, receiver } = await start(t, { args: ['--limit', 'evict_ms=50'] });
	await server.createSession({ id: 'two' });
	let n = 0;
	receiver.answer = () => (++n % 3 === 0 ? { status: 500 } : n % 5 === 0 ? (socket) => socket.destroy() : { status: 200 });
	for (let round = 0; round < 6; round++) {
		await Promise.all(['one', 'two'].map((id) => post(server, id, Array.from({ length: 5 }, (_, i) => turn(`${round}.${i}`)).flat())));
		if (round % 2) {
			await eventually(() => receiver.requests.length >= 3 * round);
		}
		await server.kill9();
		await server.restart();
	}
	await receiver.until(60);
	assertTold(receiver, [await expected(server, 'one'), await expected(server, 'two')]);
	await eventually(async () => (await behind(server)) === 0);
	const taken = receiver.requests.length;
	await server.stop();
	await server.restart();
	await eventually(async () => (await behind(server)) === 0);
	await post(server, 'one', turn('last'));
	await receiver.until(61);
	assert.equal(receiver.requests.at(-1).message.data.position.seq, (await expected(server, 'one')).at(-1).split(' ')[1] | 0);
	assert.ok(receiver.requests.length <= taken + 4, 'what was told before a clean end is not told again');
});

test('a URL that is new is told of what comes; one that was taken away and comes back is new; a session that was made meanwhile is told whole', async (t) => {
	const receiver = await Receiver.start(t);
	const dir = scratchDir(t);
	const up = (args) => Server.start(t, { dataDir: join(dir, 'data'), args: [...args, ...SOON] });
	let server = await up([]);
	await server.createSession({ id: 'one' });
	await post(server, 'one', turn('before'));
	await server.stop();
	server = await up(receiver.args());
	await server.createSession({ id: 'two' });
	await post(server, 'two', turn('a'));
	await post(server, 'one', turn('b'));
	await receiver.until(2);
	assert.deepEqual(receiver.messages.map(short).sort(), [(await expected(server, 'one'))[1], ...(await expected(server, 'two'))].sort());
	await receiver.close();
	await server.createSession({ id: 'three' });
	await post(server, 'three', turn('c'));
	await server.stop();
	await receiver.listen();
	server = await up(receiver.args());
	await receiver.until(3);
	assert.equal(short(receiver.messages[2]), (await expected(server, 'three'))[0]);
	await server.stop();
	server = await up([]);
	await post(server, 'one', turn('unheard'));
	await server.stop();
	server = await up(receiver.args('http://127.0.0.1:1/other'));
	await server.stop();
	server = await up(receiver.args());
	await post(server, 'one', turn('heard'));
	await receiver.until(4);
	assert.equal(short(receiver.messages[3]), (await expected(server, 'one')).at(-1));
});

test('a deleted session is told of no more, and one with its name is another', async (t) => {
	const { server, receiver } = await start(t);
	receiver.answer = () => ({ status: 500 });
	await post(server, 'one', turn('a'));
	await untilCounted(server, 'retried', 2);
	await server.request('DELETE', '/api/sessions/one');
	await eventually(async () => (await server.request('GET', '/api/sessions/one')).status === 404);
	await eventually(async () => (await behind(server)) === 0);
	receiver.answer = () => ({ status: 200 });
	await server.createSession({ id: 'one' });
	await post(server, 'one', turn('b'));
	await receiver.until(1);
	await server.kill9();
	await server.restart();
	await post(server, 'one', turn('c'));
	await receiver.until(2);
	assertTold(receiver, [await expected(server, 'one')]);
	assert.ok(receiver.requests.filter(({ taken }) => taken).every(({ message }, i, all) => message.data.position.epoch === all[0].message.data.position.epoch));
});

test('a receiver that never answers holds nothing up, not even the end of the server; what was open comes after the start', async (t) => {
	const { server, receiver } = await start(t, { args: ['--limit', 'webhook_ms=600000'] });
	receiver.answer = () => () => {};
	await post(server, 'one', turn('a'));
	await eventually(() => receiver.requests.length === 1);
	assert.equal((await server.request('GET', '/api/sessions')).status, 200);
	await server.stop(); // asserts that it ends with 0
	receiver.answer = () => ({ status: 200 });
	await server.restart();
	await receiver.until(1);
	assertTold(receiver, [await expected(server, 'one')]);
});

test('a name with a private address is connected to only if that is allowed; http goes to this machine, or is chosen', async (t) => {
	const dir = scratchDir(t);
	const file = join(dir, 'secret');
	writeFileSync(file, `${newSecret()}\n`);
	const serve = (...args) => runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', join(dir, 'data'), ...args]);
	for (const [args, why] of [
		[['--webhook', 'http://hooks.example.org/x', '--webhook-secret', file], /--webhook-http/],
		[['--webhook', 'http://10.0.0.1/x', '--webhook-secret', file], /--webhook-http/],
		[['--webhook', 'https://hooks.example.org/x'], /--webhook-secret/],
		[['--webhook', 'https://user@hooks.example.org/x', '--webhook-secret', file], /give a URL/],
		[['--webhook', 'ftp://hooks.example.org/x', '--webhook-secret', file], /give a URL/],
		[['--webhook', 'https://hooks.example.org/#x', '--webhook-secret', file], /a fragment/],
		[['--webhook', 'https://a/x', '--webhook', 'https://a/x', '--webhook-secret', file], /given twice/],
		[['--webhook', 'https://a', '--webhook', 'HTTPS://A:443/', '--webhook-secret', file], /given twice/],
		[['--webhook', 'https://a/x', '--webhook-secret', join(dir, 'none')], /No such file/],
		[['--webhook', 'https://a/x', '--webhook-secret', dir], /Is a directory/],
		[['--webhook', 'https://a/x', '--webhook-secret', file, '--store', 'postgresql://x/y'], /--store/],
		[['--webhook-address', 'x', '--webhook', 'https://a/x', '--webhook-secret', file], /give an address/],
	]) {
		const { code, stderr } = await serve(...args);
		assert.notEqual(code, 0, args.join(' '));
		assert.match(stderr, why);
	}
	for (const text of ['whsec_', 'whsec_c2hvcnQ=', newSecret().slice(6), `${newSecret()}x`, Array.from({ length: 5 }, newSecret).join('\n'), 'x'.repeat(5000)]) {
		writeFileSync(join(dir, 'bad'), text);
		const { code, stderr } = await serve('--webhook', 'https://a/x', '--webhook-secret', join(dir, 'bad'));
		assert.notEqual(code, 0, text);
		assert.match(stderr, /--webhook-secret/);
	}
	const hits = [];
	const listener = net.createServer((socket) => hits.push(socket.destroy()));
	await new Promise((done) => listener.listen(0, '127.0.0.1', done));
	t.after(() => listener.close());
	const name = 'localhost.localdomain'; // a name that the file of hosts has, or nobody
	const server = await Server.start(t, { args: ['--webhook', `https://${name}:${listener.address().port}/x`, '--webhook-secret', file, ...SOON] });
	await server.createSession({ id: 'one' });
	await post(server, 'one', turn('a'));
	await untilCounted(server, 'retried', 2);
	assert.match(server.stderr, /no allowed address|No route to host/);
	assert.equal(hits.length, 0);
});

test('a disk that is full costs at most a message that comes twice', async (t) => {
	const receiver = await Receiver.start(t);
	const server = await Server.start(t, { diskSize: '8m', args: [...receiver.args(), ...SOON] });
	await server.createSession({ id: 'one' });
	await post(server, 'one', turn('a'));
	await receiver.until(1);
	for (let full = false; !full;) {
		full = (await server.request('POST', '/api/sessions/one/events', { json: [input.text(`${'x'.repeat(200_000)}\n\n`), input.end()] })).status !== 200;
	}
	const all = await expected(server, 'one');
	await receiver.until(all.length);
	assertTold(receiver, [all]);
	assert.equal((await server.request('GET', '/api/sessions/one')).status, 200);
});
