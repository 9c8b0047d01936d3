// An agent that shows and sounds: after "show" it says images, audio and resources of several sizes. "wait" waits for a cancel. After
// any other prompt its answer names each block that it was given, with its size and the SHA-256 of its bytes.
// The arguments are its promptCapabilities.

import { createHash } from 'node:crypto';
import { createInterface } from 'node:readline';
import { png } from './blobs.mjs';

const capabilities = Object.fromEntries(process.argv.slice(2).map((name) => [name, true]));
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const update = (sessionUpdate, rest) => say({ method: 'session/update', params: { sessionId: 's', update: { sessionUpdate, ...rest } } });
const chunk = (content, kind = 'agent_message_chunk') => update(kind, { content });
const text = (words) => chunk({ type: 'text', text: words });
const base64 = (bytes) => Buffer.from(bytes).toString('base64');
const filler = (size, letter) => Buffer.alloc(size, letter);
export const large = png(900, 700);
export const noisy = (size, seed) => Buffer.from(Array.from({ length: size }, (_, i) => (i * i + seed) & 255));

const image = (bytes) => ({ type: 'image', mimeType: 'image/png', data: base64(bytes) });

/** What is shown, in this order. */
function show() {
	text('Before.\n\n');
	chunk(image(Buffer.concat([large, noisy(9000, 1)])));
	text('Between.\n\n');
	chunk(image(png()));
	chunk(image(Buffer.concat([large, noisy(9000, 2)])), 'agent_thought_chunk');
	update('tool_call', { toolCallId: 'call_1', title: 'Take a picture', kind: 'other', status: 'completed', content: [
		{ type: 'content', content: { type: 'text', text: 'Here it is.' } },
		{ type: 'content', content: image(Buffer.concat([large, noisy(9000, 3)])) },
		{ type: 'content', content: { type: 'resource', resource: { uri: 'file:///notes.txt', mimeType: 'text/plain', text: String(filler(9000, 'n')) } } },
		{ type: 'content', content: { type: 'resource', resource: { uri: 'file:///a.bin', mimeType: 'application/x-thing', blob: base64(noisy(9000, 4)) } } },
		{ type: 'content', content: { type: 'resource_link', uri: 'https://example.com/a', name: 'a page' } },
		{ type: 'content', content: { type: 'audio', mimeType: 'audio/wav', data: base64(Buffer.concat([Buffer.from('RIFF\x01\x00\x00\x00WAVE'), noisy(9000, 5)])) } },
		{ type: 'content', content: { type: 'image', mimeType: 'image/png', data: `!${'x'.repeat(9000)}` } },
	] });
	text('After.\n\n');
}

function describe(block) {
	const inner = block.resource ?? block;
	const bytes = inner.text !== undefined ? Buffer.from(inner.text) : Buffer.from(inner.data ?? inner.blob ?? '', 'base64');
	const sum = createHash('sha256').update(bytes).digest('hex');
	return [block.type, inner.uri, inner.name, inner.mimeType, inner.text !== undefined ? 'text' : 'base64', bytes.length, sum].join(' ');
}

if (process.argv[1].endsWith('content_agent.mjs')) {
	let waiting;
	createInterface({ input: process.stdin }).on('line', (line) => {
		const { id, method, params } = JSON.parse(line);
		if (method === 'initialize') {
			say({ id, result: { protocolVersion: 1, agentCapabilities: { loadSession: true, promptCapabilities: capabilities } } });
		} else if (method === 'session/new') {
			say({ id, result: { sessionId: 's' } });
		} else if (method === 'session/load') {
			chunk({ type: 'text', text: 'show' }, 'user_message_chunk');
			show();
			say({ id, result: {} });
		} else if (method === 'session/prompt' && params.prompt[0].text === 'wait') {
			waiting = id; // until it is cancelled
		} else if (method === 'session/cancel') {
			say({ id: waiting, result: { stopReason: 'cancelled' } });
		} else if (method === 'session/prompt') {
			if (params.prompt[0].text === 'show') {
				show();
			} else {
				text(`\`\`\`\n${params.prompt.map(describe).join('\n')}\n\`\`\`\n`);
			}
			say({ id, result: { stopReason: 'end_turn' } });
		}
	});
}
