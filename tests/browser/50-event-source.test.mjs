// The browser's own EventSource: it follows a session and the feed, alone and behind nginx, which adds the token that a page cannot send; it comes back after
// everything, and stops where it should.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, demoAgent, scratchDir } from '../support/server.mjs';
import { defer, eventually } from '../support/wait.mjs';
import { openPage } from './page.mjs';

const docs = readFileSync(fileURLToPath(new URL('../../docs/server-sent-events.md', import.meta.url)), 'utf8');

async function freePort() {
	const server = createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address();
	await new Promise((resolve) => server.close(resolve));
	return port;
}

/** A directory with an empty page. */
function blank(t) {
	const dir = scratchDir(t);
	writeFileSync(join(dir, 'index.html'), '<!doctype html><title>app</title><link rel=icon href=data:,>');
	return dir;
}

/** In the page: follows, and notes all that is said. */
function follow(path) {
	const source = new EventSource(path);
	window.source = source;
	window.seen = [];
	window.opened = 0;
	window.errors = 0;
	const note = ({ type, data, lastEventId }) => window.seen.push({ type, data: JSON.parse(data), lastEventId });
	for (const type of ['user_prompt', 'agent_message', 'agent_thought', 'tool_call', 'tool_call_update', 'plan', 'usage', 'turn_end', 'agent_started', 'agent_stopped', 'permission_request', 'permission_resolved', 'x-note',
		'x-acp-available_commands_update', 'x-acp-modes', 'x-acp-models', 'x-acp-current_mode_update', 'x-acp-config_option_update', 'x-acp-session_info_update', 'x-acp-meta', 'x-acp-content', 'file_read', 'file_write',
		'live', 'reset', 'state', 'ended', 'draining', 'session_gone', 'sessions', 'session_changed', 'session_created']) {
		source.addEventListener(type, note);
	}
	source.onopen = () => (window.opened += 1);
	source.onerror = () => (window.errors += 1);
}

const isRefusal = (text) => /Failed to load|net::ERR_|EventSource/.test(text);
const eventsIn = (page) => page.evaluate(() => window.seen.filter(({ lastEventId, data }) => lastEventId && data.seq !== undefined && data.ts));
const saw = (page, type, least = 1) => page.waitForFunction(([name, count]) => window.seen.filter((e) => e.type === name).length >= count, [type, least]);

async function assertSawAll(page, server, id) {
	const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=5000`);
	await page.waitForFunction((last) => window.seen.some(({ data, lastEventId }) => lastEventId.endsWith(`-${last}`) && data.seq === last), body.events.at(-1).seq);
	const seen = await eventsIn(page);
	assert.deepEqual(seen.map(({ data }) => data), body.events);
	assert.ok(seen.every(({ data, type, lastEventId }) => type === data.type && lastEventId.endsWith(`-${data.seq}`)));
}

test('EventSource follows a turn, and comes back when the server is killed and when it stops', async (t) => {
	const port = await freePort();
	const server = await Server.start(t, { listen: [`127.0.0.1:${port}`], auth: false, agent: demoAgent('--rate 400'), args: ['--web', blank(t)] });
	await server.createSession({ id: 's' });
	const page = await openPage(t, server.url, { login: false, mayReport: isRefusal });
	await page.evaluate(follow, '/api/sessions/s/events?after=0&deltas=text');
	await saw(page, 'live');
	const prompt = async () => {
		const asker = await Observer.connect(t, server, 's');
		await asker.loadAll();
		await asker.prompt('long 30');
	};
	await prompt();
	await saw(page, 'agent_message', 3);
	await server.kill9();
	await server.restart();
	await saw(page, 'live', 2);
	await prompt();
	await saw(page, 'turn_end', 2);
	await server.stop();
	await server.restart();
	await saw(page, 'live', 3);
	await post(server, 's', input.note({ is: 'after' }));
	await saw(page, 'x-note');
	await assertSawAll(page, server, 's');
	assert.equal(await page.evaluate(() => window.seen.filter(({ type }) => type === 'reset').length), 0);
	await server.request('DELETE', '/api/sessions/s');
	await saw(page, 'session_gone');
	await page.waitForFunction(() => window.source.readyState === EventSource.CLOSED); // of a session that is gone it does not ask again
});

test('the snippet of the docs works', async (t) => {
	const server = await Server.start(t, { listen: [`127.0.0.1:${await freePort()}`], auth: false, args: ['--web', blank(t)] });
	await server.createSession({ id: 'hello' });
	const page = await openPage(t, server.url, { login: false, mayReport: isRefusal });
	const snippet = [...docs.matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(([, code]) => code).find((code) => code.includes('new EventSource('));
	await page.evaluate(() => {
		window.shown = [];
		window.grown = [];
		window.show = (event) => window.shown.push(event);
		window.grow = (delta) => window.grown.push(delta);
		window.clear = () => {};
	});
	await page.evaluate(`${snippet}; window.state = () => source.readyState;`);
	await page.waitForFunction(() => window.state() === EventSource.OPEN);
	await post(server, 'hello', input.text('One '));
	await page.waitForFunction(() => window.grown.length > 0);
	await post(server, 'hello', [input.text('two'), input.end()]);
	await page.waitForFunction(() => window.shown.length === 1);
	assert.equal(await page.evaluate(() => window.grown[0].text), 'One ');
	assert.equal(await page.evaluate(() => window.shown[0].data.html), '<p>One two</p>\n');

	// A proxy answers 502 while the server is away.
	await page.route('**/api/**', (route) => route.fulfill({ status: 502, contentType: 'text/html', body: '<h1>Bad Gateway</h1>' }));
	await server.kill9();
	await page.waitForFunction(() => window.state() === EventSource.CLOSED);
	await server.restart();
	await post(server, 'hello', [input.text('three'), input.end()]);
	await page.unroute('**/api/**');
	await page.waitForFunction(() => window.shown.length === 2);
	assert.equal(await page.evaluate(() => window.shown[1].data.html), '<p>three</p>\n');
	// Of a session that is gone it does not ask again.
	await server.request('DELETE', '/api/sessions/hello');
	await page.waitForFunction(() => window.state() === EventSource.CLOSED);
});

/** nginx with the location of the docs, and nothing else that would help: it buffers, and speaks HTTP/1.0 to the server. */
async function startNginx(t, server) {
	const port = await freePort();
	const dir = scratchDir(t);
	const [, location] = /^```nginx\n([\s\S]*?)^```$/m.exec(docs);
	writeFileSync(join(dir, 'nginx.conf'), `
daemon off; pid ${dir}/pid; error_log ${dir}/error.log; worker_processes 1;
events {}
http {
	access_log off;
	client_body_temp_path ${dir}/1; proxy_temp_path ${dir}/2; fastcgi_temp_path ${dir}/3; uwsgi_temp_path ${dir}/4; scgi_temp_path ${dir}/5;
	server {
		listen 127.0.0.1:${port};
		location = /page { default_type text/html; return 200 '<!doctype html><title>app</title><link rel=icon href=data:,>'; }
		${location.replace('http://127.0.0.1:8080', server.url).replace('TOKEN', server.token)}
	}
}`);
	const nginx = spawn('nginx', ['-p', dir, '-c', join(dir, 'nginx.conf')], { stdio: 'inherit' });
	const gone = once(nginx, 'close');
	defer(t, async () => {
		nginx.kill('SIGTERM');
		await gone;
	});
	const url = `http://127.0.0.1:${port}`;
	await eventually(() => fetch(`${url}/page`).then(() => true, () => false), 'nginx to listen');
	return url;
}

test('behind nginx, which buffers, events come at once, with the token that nginx adds', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 400') });
	await server.createSession({ id: 's' });
	const page = await openPage(t, `${await startNginx(t, server)}/page`, { login: false, mayReport: isRefusal });
	await page.evaluate(follow, '/api/sessions/s/events?after=0');
	await saw(page, 'live');
	for (let n = 0; n < 5; n++) { // each is seen before the next one is written: nothing is held back
		await post(server, 's', input.note({ n }));
		await saw(page, 'x-note', n + 1);
	}
	const asker = await Observer.connect(t, server, 's');
	await asker.loadAll();
	await asker.prompt('list');
	await saw(page, 'turn_end');
	await assertSawAll(page, server, 's');
});

test('a page of another site opens no stream', async (t) => {
	const server = await Server.start(t, { auth: false });
	await server.createSession({ id: 's' });
	const { port } = new URL(server.url);
	const evil = createServer((socket) => socket.on('error', () => {}).on('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<!doctype html><link rel=icon href=data:,>'))).listen(0, '127.0.0.1');
	await once(evil, 'listening');
	defer(t, () => evil.close());
	const page = await openPage(t, `http://evil.test:${evil.address().port}/`, { login: false, mayReport: () => true });
	await page.evaluate(follow, `http://localhost:${port}/api/sessions/s/events`);
	await page.waitForFunction(() => window.source.readyState === EventSource.CLOSED);
	assert.deepEqual(await page.evaluate(() => [window.opened, window.seen]), [0, []]);
});
