// Prompts with images, files and links (proto/protocol.md#images-and-files): the agent gets them as content blocks, they wait in the
// queue with their prompt, and what the session or the agent does not take is refused.

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { mustUpload, png, sha256 } from '../support/blobs.mjs';
import { Observer } from '../support/observer.mjs';
import { Server } from '../support/server.mjs';

const agent = (...takes) => `exec ${process.execPath} ${fileURLToPath(new URL('../support/content_agent.mjs', import.meta.url))} ${takes.join(' ')}`;
const sound = Buffer.from('RIFF\x01\x00\x00\x00WAVEfmt ');
const notes = Buffer.from('Grüße\n');

async function start(t, { takes = ['image', 'audio', 'embeddedContext'], args = [] } = {}) {
	const server = await Server.start(t, { agent: agent(...takes), args });
	await server.createSession({ id: 'one' });
	const observer = await Observer.connect(t, server, 'one', { query: { format: 'markdown' } });
	await observer.loadAll();
	return { server, observer };
}

/** Sends a prompt; gives its turn's answer, or its end. */
async function ask(observer, data) {
	const { seq } = await observer.promptWith(data);
	const end = await observer.waitForEvent('turn_end', { after: seq });
	const answer = observer.events().filter((e) => e.seq > seq && e.type === 'agent_message').map((e) => e.data.markdown).join('');
	return { seq, end: end.data, lines: answer.split('\n').filter((line) => line && !line.startsWith('```')) };
}

const describe = (bytes, ...words) => [...words, bytes.length, sha256(bytes)].join(' ');

test('the agent gets images, sounds, files and links behind the words', async (t) => {
	const { server, observer } = await start(t);
	const image = await mustUpload(server, 'one', png());
	const audio = await mustUpload(server, 'one', sound);
	const text = await mustUpload(server, 'one', notes);
	const binary = await mustUpload(server, 'one', Buffer.from([0, 1, 2]));
	const content = [
		{ type: 'image', blob: image.blob, name: 'a.png' },
		{ type: 'audio', blob: audio.blob },
		{ type: 'resource', blob: text.blob, name: 'notes.txt', mime_type: 'text/x-notes' },
		{ type: 'resource', blob: binary.blob, name: 'b.bin' },
		{ type: 'resource_link', uri: 'file:///src/main.c', name: 'main.c' },
	];
	const { seq, lines } = await ask(observer, { message: 'What is this?', prompt_id: 'p-1', content });
	assert.deepEqual(lines, [
		describe(Buffer.from('What is this?'), 'text', '', '', '', 'text'),
		describe(png(), 'image', '', '', 'image/png', 'base64'),
		describe(sound, 'audio', '', '', 'audio/wav', 'base64'),
		describe(notes, 'resource', 'attachment:///notes.txt', '', 'text/x-notes', 'text'),
		describe(Buffer.from([0, 1, 2]), 'resource', 'attachment:///b.bin', '', 'application/octet-stream', 'base64'),
		describe(Buffer.alloc(0), 'resource_link', 'file:///src/main.c', 'main.c', '', 'base64'),
	]);
	const prompt = observer.events().find((e) => e.seq === seq);
	assert.deepEqual(prompt.data.content, [
		{ ...content[0], mime_type: 'image/png', size: png().length },
		{ ...content[1], mime_type: 'audio/wav', size: sound.length },
		{ ...content[2], size: notes.length },
		{ ...content[3], mime_type: 'application/octet-stream', size: 3 },
		content[4],
	]);
	const started = observer.events().find((e) => e.type === 'agent_started');
	assert.deepEqual(started.data.prompt_capabilities, { image: true, audio: true, embedded_context: true });
	// A link needs nothing of the agent, nor of the disk.
	assert.equal((await ask(observer, { message: 'And this?', prompt_id: 'p-2', content: [content[4]] })).lines.length, 2);
	// The same prompt again is the same.
	assert.equal((await observer.promptWith({ message: 'What is this?', prompt_id: 'p-1', content })).seq, seq);
});

test('they wait with their prompt, also when it is edited, and outlive kill -9', async (t) => {
	const server = await Server.start(t, { agent: agent('image') });
	await server.createSession({ id: 'one' });
	let observer = await Observer.connect(t, server, 'one', { query: { format: 'markdown' } });
	await observer.loadAll();
	const { blob } = await mustUpload(server, 'one', png());
	const content = [{ type: 'image', blob }];
	const { seq: slow } = await observer.prompt('wait');
	for (const id of ['q-1', 'q-2']) {
		await observer.promptWith({ message: `${'long '.repeat(100)}${id}`, prompt_id: id, content });
	}
	const queued = (await server.request('GET', '/api/sessions/one/queue')).body.prompts;
	assert.deepEqual(queued.map((p) => p.content), [[{ ...content[0], mime_type: 'image/png', size: png().length }], queued[0].content]);
	await observer.send('edit_prompt', { prompt_id: 'q-2', message: 'Edited' });
	await observer.waitFor('prompt_edited');
	await server.kill9();
	await server.up();
	observer = await Observer.connect(t, server, 'one', { query: { format: 'markdown' } });
	await observer.loadAll();
	const ended = await observer.waitForEvent((e) => e.type === 'user_prompt' && e.data.prompt_id === 'q-2', { after: slow });
	await observer.waitForEvent('turn_end', { after: ended.seq });
	const answers = observer.events().filter((e) => e.type === 'agent_message').map((e) => e.data.markdown);
	assert.equal(answers.filter((words) => words.includes(sha256(png()))).length, 2);
	assert.deepEqual([ended.data.edited, ended.data.message, ended.data.content.length], [true, 'Edited', 1]);
});

test('what is wrong is refused with a code', async (t) => {
	const { server, observer } = await start(t, { args: ['--limit', 'prompt_blocks=3', '--limit', 'prompt_blobs=4K'] });
	const image = { type: 'image', blob: (await mustUpload(server, 'one', png())).blob };
	const text = { type: 'resource', blob: (await mustUpload(server, 'one', notes)).blob };
	const large = { type: 'resource', blob: (await mustUpload(server, 'one', Buffer.alloc(5000, 'x'))).blob };
	await server.createSession({ id: 'two' });
	const elsewhere = { type: 'resource', blob: (await mustUpload(server, 'two', Buffer.from('not yours'))).blob };
	const cases = [
		['bad_request', { a: 1 }], ['bad_request', 'x'], ['bad_request', [null]], ['bad_request', [{}]], ['bad_request', [{ type: 'video', blob: image.blob }]],
		['bad_request', [{ type: 'image' }]], ['bad_request', [{ type: 'image', blob: '../../access-token' }]], ['bad_request', [{ ...image, data: 'AAAA' }]],
		['bad_request', [{ ...image, size: 1 }]], ['bad_request', [{ ...image, name: '' }]], ['bad_request', [{ ...image, name: 'x'.repeat(257) }]],
		['bad_request', [{ type: 'resource_link', name: 'x' }]], ['bad_request', [{ type: 'resource_link', uri: 'file:///x', name: 'x', blob: image.blob }]],
		['bad_request', [{ ...text, type: 'image' }]], ['bad_request', [{ ...image, type: 'audio' }]],
		['unknown_blob', [{ type: 'image', blob: 'a'.repeat(64) }]], ['unknown_blob', [image, elsewhere]],
		['too_large', [image, image, image, image]], ['too_large', [large]],
	];
	for (const [code, content] of cases) {
		const error = await observer.refused('prompt', { message: 'x', prompt_id: 'p', content });
		assert.deepEqual([error.code, error.prompt_id], [code, 'p'], JSON.stringify(content));
	}
	assert.equal((await ask(observer, { message: 'x', prompt_id: 'p', content: [image] })).lines.length, 2, 'nothing of it has stayed');
	assert.equal((await ask(observer, { message: 'x', prompt_id: 'p-none', content: [] })).lines.length, 1);
	await server.stop();
});

test('what the agent does not take is said: at once if that is known, else when it has started', async (t) => {
	const { server, observer } = await start(t, { takes: [] });
	const content = [{ type: 'image', blob: (await mustUpload(server, 'one', png())).blob }];
	const first = await ask(observer, { message: 'x', prompt_id: 'p-1', content });
	assert.equal(first.end.stop_reason, 'error');
	assert.match(first.end.message, /does not take/);
	const error = await observer.refused('prompt', { message: 'x', prompt_id: 'p-2', content });
	assert.equal(error.code, 'unsupported_content');
	assert.equal((await ask(observer, { message: 'x', prompt_id: 'p-3' })).end.stop_reason, 'end_turn');
	await server.stop();
});

test('a blob that is gone from the disk ends the turn with words', async (t) => {
	const { server, observer } = await start(t);
	const { blob } = await mustUpload(server, 'one', png());
	const { seq } = await observer.prompt('wait');
	await observer.promptWith({ message: 'x', prompt_id: 'p-1', content: [{ type: 'image', blob }] });
	rmSync(join(server.dataDir, 'sessions/one/blobs', blob));
	await observer.send('cancel');
	const prompt = await observer.waitForEvent((e) => e.type === 'user_prompt' && e.data.prompt_id === 'p-1', { after: seq });
	const end = await observer.waitForEvent('turn_end', { after: prompt.seq });
	assert.match(end.data.message, /no longer exists/);
});

test('who goes away in the middle leaves nothing behind', async (t) => {
	const { server } = await start(t);
	const { blob } = await mustUpload(server, 'one', png());
	for (let n = 0; n < 20; n++) {
		const other = await Observer.connect(t, server, 'one');
		await other.send('prompt', { message: 'x', prompt_id: `gone-${n}`, content: Array(20).fill({ type: 'image', blob }) });
		await other.close();
	}
	await server.stop();
});
