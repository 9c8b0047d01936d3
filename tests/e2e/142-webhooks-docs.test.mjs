// The code of docs/webhooks.md: the secret that its commands make, and the receiver, with npm standardwebhooks.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { input, post } from '../support/producer.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { defer, eventually } from '../support/wait.mjs';

const docs = readFileSync(fileURLToPath(new URL('../../docs/webhooks.md', import.meta.url)), 'utf8');
const snippet = (language) => new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(docs)[1];

test('the receiver of the docs takes a message once, also if it comes again, and refuses those of others', async (t) => {
	const dir = scratchDir(t);
	const [makeSecret] = snippet('sh').split('\n');
	execFileSync('sh', ['-c', makeSecret], { cwd: dir });
	writeFileSync(join(dir, 'receiver.mjs'), snippet('js'));
	symlinkSync(fileURLToPath(new URL('../node_modules', import.meta.url)), join(dir, 'node_modules'));
	const { receiver } = await import(pathToFileURL(join(dir, 'receiver.mjs')));
	const told = [];
	let fails = 1;
	let requests = 0;
	const take = receiver(readFileSync(join(dir, 'webhook-secret'), 'utf8').trim(), (message) => told.push(message));
	take.prependListener('request', (_, response) => {
		requests++;
		if (fails-- > 0) { // it is taken, but the server does not hear of it
			response.writeHead = () => ({ end: () => response.socket.destroy() });
		}
	});
	await new Promise((resolve) => take.listen(0, '127.0.0.1', resolve));
	defer(t, () => new Promise((resolve) => take.close(resolve)));
	const url = `http://127.0.0.1:${take.address().port}/holdfast`;
	const server = await Server.start(t, { args: ['--webhook', url, '--webhook-secret', join(dir, 'webhook-secret'), '--limit', 'webhook_retry_ms=1'] });
	await server.createSession({ id: 'demo' });
	await post(server, 'demo', [input.text('x\n\n'), input.end()]);
	await eventually(() => requests === 2);
	await post(server, 'demo', [input.text('y\n\n'), input.end()]);
	await eventually(() => told.length === 2);
	assert.deepEqual(told.map(({ type, data }) => [type, data.session_id]), [['session.turn_ended', 'demo'], ['session.turn_ended', 'demo']]);
	const { seq } = told[1].data.position;
	const { body } = await server.request('GET', `/api/sessions/demo/events?after_seq=${seq - 1}&limit=1`);
	assert.equal(body.events[0].type, 'turn_end', 'the position is that of the event');
	const example = JSON.parse(snippet('json'));
	assert.deepEqual([Object.keys(example), Object.keys(example.data), Object.keys(example.data.position)], [Object.keys(told[0]), Object.keys(told[0].data), Object.keys(told[0].data.position)]);
	const forged = await fetch(url, { method: 'POST', body: '{}', headers: { 'webhook-id': 'x', 'webhook-timestamp': String(Math.floor(Date.now() / 1000)), 'webhook-signature': 'v1,AAAA' } });
	assert.equal(forged.status, 401);
	assert.equal(told.length, 2);
});
