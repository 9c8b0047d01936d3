// The code of docs/ai-sdk.md, with npm ai.

import assert from 'node:assert/strict';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import WebSocket from 'ws';
import { Chat } from '../support/ai_chat.mjs';
import { Server, demoAgent, scratchDir } from '../support/server.mjs';
import { ownToken } from '../support/tokens.mjs';
import { defer } from '../support/wait.mjs';

const docs = readFileSync(fileURLToPath(new URL('../../docs/ai-sdk.md', import.meta.url)), 'utf8');

for (const heading of ['With a WebSocket', 'With HTTP']) {
	test(`${heading}: the options of the docs make a chat that asks, answers a question and resumes`, async (t) => {
		const server = await Server.start(t, { agent: demoAgent('--rate 400') });
		await server.createSession({ id: 'demo' });
		const dir = scratchDir(t);
		const part = docs.split(/^## /m).find((each) => each.startsWith(`${heading}\n`));
		const [, code] = /^```js\n([\s\S]*?)^```$/m.exec(part);
		writeFileSync(join(dir, 'options.mjs'), code.replaceAll('http://127.0.0.1:8080', server.url));
		symlinkSync(fileURLToPath(new URL('../node_modules', import.meta.url)), join(dir, 'node_modules'));
		const { chatOptions } = await import(pathToFileURL(join(dir, 'options.mjs')));
		globalThis.WebSocket ??= WebSocket; // as browsers have it
		const make = () => {
			const { resume, ...options } = chatOptions('demo', ownToken(server, 'controller', ['demo']));
			assert.ok(resume);
			defer(t, () => options.transport.close?.());
			return new Chat(options);
		};
		const chat = make();
		await chat.sendMessage({ text: 'permission' });
		await chat.until(() => chat.status === 'ready' && chat.messages.at(-1).parts.some(({ state }) => state === 'approval-requested'));
		const again = make();
		await again.resumeStream();
		const { approval } = again.messages.at(-1).parts.find(({ state }) => state === 'approval-requested');
		await again.addToolApprovalResponse({ id: approval.id, approved: true, reason: 'allow_always' });
		await again.until(() => again.status === 'ready' && again.messages.at(-1).parts.some(({ state }) => state === 'output-available'));
		const { body: { events } } = await server.request('GET', '/api/sessions/demo/events?format=markdown');
		assert.equal(events.find(({ type }) => type === 'permission_resolved').data.option_id, 'allow_always');
		assert.equal(again.text, events.filter(({ type }) => type === 'agent_message').map(({ data }) => data.markdown).join(''));
		assert.deepEqual([...chat.errors, ...again.errors], []);
	});
}
