// Images, audio and resources of agents: large ones leave their events and become blobs, in order, hidden from those whose token
// hides what they come from, and never lost without a word.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { download, sha256 } from '../support/blobs.mjs';
import { large, noisy } from '../support/content_agent.mjs';
import { Observer } from '../support/observer.mjs';
import { Server, runToEnd } from '../support/server.mjs';
import { claims, makeToken, secretOf } from '../support/tokens.mjs';

const AGENT = `exec ${process.execPath} ${fileURLToPath(new URL('../support/content_agent.mjs', import.meta.url))}`;
const picture = (seed) => Buffer.concat([large, noisy(9000, seed)]);
const sound = Buffer.concat([Buffer.from('RIFF\x01\x00\x00\x00WAVE'), noisy(9000, 5)]);
const reference = (bytes) => ({ blob: sha256(bytes), size: bytes.length });

async function start(t, args = []) {
	const server = await Server.start(t, { agent: AGENT, args });
	await server.createSession({ id: 'one' });
	const observer = await Observer.connect(t, server, 'one', { query: { format: 'markdown' } });
	await observer.loadAll();
	return { server, observer };
}

async function show(observer) {
	const { seq } = await observer.prompt('show');
	await observer.waitForEvent('turn_end', { after: seq });
	return observer.events().filter((e) => e.seq > seq && e.type !== 'agent_started');
}

const blocksOf = (events) => events.find((e) => e.type === 'tool_call').data.content.map((c) => c.content);

test('large ones are blobs, in their place', async (t) => {
	const { server, observer } = await start(t);
	const events = await show(observer);
	assert.deepEqual(events.map((e) => e.data.markdown?.trim() ?? e.type), ['Before.', 'x-acp-content', 'Between.', 'x-acp-content', 'x-acp-content', 'tool_call', 'After.', 'turn_end']);
	const [first, small, thought] = events.filter((e) => e.type === 'x-acp-content').map((e) => e.data);
	assert.deepEqual(first.content, { type: 'image', mime_type: 'image/png', ...reference(picture(1)) });
	assert.deepEqual(Object.keys(small.content).sort(), ['data', 'mime_type', 'type'], 'a small one stays');
	assert.deepEqual([thought.thought, thought.content.blob], [true, sha256(picture(2))]);
	const [, image, notes, bytes, link, audio, bad] = blocksOf(events);
	assert.deepEqual(image, { type: 'image', mime_type: 'image/png', ...reference(picture(3)) });
	assert.deepEqual(notes, { type: 'resource', resource: { uri: 'file:///notes.txt', mime_type: 'text/plain' }, ...reference(Buffer.alloc(9000, 'n')) });
	assert.deepEqual(bytes, { type: 'resource', resource: { uri: 'file:///a.bin', mime_type: 'application/x-thing' }, ...reference(noisy(9000, 4)) });
	assert.deepEqual(link, { type: 'resource_link', uri: 'https://example.com/a', name: 'a page' });
	assert.deepEqual(audio, { type: 'audio', mime_type: 'audio/wav', ...reference(sound) });
	assert.deepEqual(bad, { type: 'image', mime_type: 'image/png', omitted: 'bad_base64' });
	for (const [content, type] of [[picture(1), 'image/png'], [picture(3), 'image/png'], [Buffer.alloc(9000, 'n'), 'text/plain; charset=utf-8'], [sound, 'audio/wav'], [noisy(9000, 4), 'application/octet-stream']]) {
		const answer = await download(server, 'one', sha256(content));
		assert.deepEqual([answer.status, answer.headers.get('content-type')], [200, type]);
		assert.ok(answer.bytes.equals(content));
	}
});

test('a token that hides what they come from does not get them', async (t) => {
	const { server, observer } = await start(t);
	await show(observer);
	for (const [hide, expected] of [[['tools'], [200, 200, 404]], [['thoughts'], [200, 404, 200]], [['thoughts', 'tools'], [200, 404, 404]]]) {
		const { holdfast, ...rest } = claims('observer', ['*'], { sub: 'ann' });
		const headers = { authorization: `Bearer ${makeToken({ ...rest, holdfast: { ...holdfast, hide } }, secretOf(server))}` };
		const statuses = [];
		for (const seed of [1, 2, 3]) {
			statuses.push((await download(server, 'one', sha256(picture(seed)), { headers })).status);
		}
		assert.deepEqual(statuses, expected, hide.join());
	}
	await server.stop();
	const { code, stdout } = await runToEnd(['verify', server.dataDir]);
	assert.equal(code, 0, stdout);
});

test('what has no room is left out, and said; the turn goes on', async (t) => {
	const { server, observer } = await start(t, ['--limit', 'blob_size=8K']);
	const events = await show(observer);
	const [, image, notes] = blocksOf(events);
	assert.deepEqual(image, { type: 'image', mime_type: 'image/png', size: picture(3).length, omitted: 'too_large' });
	assert.deepEqual(notes.omitted, 'too_large');
	assert.equal(events.at(-1).data.stop_reason, 'end_turn');
	assert.equal((await download(server, 'one', sha256(picture(3)))).status, 404);
});

test('they outlive kill -9, and a replay of them adds nothing', async (t) => {
	const { server, observer } = await start(t);
	await show(observer);
	const before = observer.events().length;
	await server.kill9();
	await server.up();
	for (const seed of [1, 2, 3]) {
		assert.equal((await download(server, 'one', sha256(picture(seed)))).status, 200);
	}
	const again = await Observer.connect(t, server, 'one', { query: { format: 'markdown' } });
	await again.loadAll();
	const { seq } = await again.prompt('and now?');
	await again.waitForEvent('turn_end', { after: seq });
	const events = again.events();
	assert.deepEqual(events.filter((e) => e.data.recovered), []);
	assert.equal(events.filter((e) => e.type === 'x-acp-content').length, 3);
	assert.ok(events.length > before);
	assert.ok(events.some((e) => e.type === 'agent_started' && e.data.resumed === true), 'it was resumed');
});
