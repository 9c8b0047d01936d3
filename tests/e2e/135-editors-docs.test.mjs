// The code of docs/editors.md: the program that talks to /acp, and what editors are told to start.

import assert from 'node:assert/strict';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Editor } from '../support/editor.mjs';
import { Server, demoAgent, scratchDir } from '../support/server.mjs';
import { ownToken } from '../support/tokens.mjs';

const read = (path) => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8');
const docs = read('docs/editors.md');
const block = (kind) => new RegExp(`^\`\`\`${kind}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(docs)[1];

async function start(t) {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	await server.createSession({ id: 'demo' });
	return server;
}

test('the program of the docs prompts, answers a question and has what was said', async (t) => {
	const server = await start(t);
	const dir = scratchDir(t);
	writeFileSync(join(dir, 'ask.mjs'), block('js').replaceAll('ws://127.0.0.1:8080', server.url.replace('http', 'ws')));
	symlinkSync(fileURLToPath(new URL('../node_modules', import.meta.url)), join(dir, 'node_modules'));
	const { ask } = await import(pathToFileURL(join(dir, 'ask.mjs')));
	const { sessionId, stopReason, said } = await ask(ownToken(server, 'controller', ['*']), 'permission');
	assert.equal(stopReason, 'end_turn');
	const { body } = await server.request('GET', `/api/sessions/${sessionId}/events?format=markdown`);
	assert.equal(said, body.events.filter(({ type }) => type === 'agent_message').map(({ data }) => data.markdown).join(''));
});

/** What each editor starts: the command, its arguments, and its environment. */
function commands() {
	const entry = (kind) => Object.values(JSON.parse(block(`json ${kind}`)).agent_servers)[0];
	const lua = block('lua');
	const words = [.../default = \{([^}]*)\}/.exec(lua)[1].matchAll(/"([^"]*)"/g)].map(([, word]) => word);
	const [, variable, value] = /env = \{ (\w+) = "(\w+)" \}/.exec(lua);
	return { zed: entry('zed'), jetbrains: entry('jetbrains'), neovim: { command: words[0], args: words.slice(1), env: { [variable]: value } } };
}

for (const [name, { command, args, env }] of Object.entries(commands())) {
	test(`${name}: what the docs tell it to start is an agent that answers`, async (t) => {
		const server = await start(t);
		assert.equal(command, 'holdfast');
		assert.deepEqual(env, { HOLDFAST_TOKEN: 'TOKEN' });
		assert.equal(args[0], 'attach');
		assert.equal(args[args.indexOf('--url') + 1], 'http://127.0.0.1:8080');
		const editor = await Editor.open(t, server, { attach: args.slice(3) });
		const { sessionId } = await editor.request('session/new', { cwd: '/home/me/project', mcpServers: [] });
		assert.equal(sessionId === 'demo', args.includes('--session'));
		assert.deepEqual(await editor.prompt(sessionId, 'list'), { stopReason: 'end_turn' });
		editor.assertGood();
	});
}

test('the table of methods has every method that the server takes and sends, each with a test that there is', () => {
	const source = read('src/doors/acp/editor_request.c');
	const taken = [...source.matchAll(/^\t\{"([$\w/]+)", EDITOR_/gm)].map(([, name]) => name);
	const sent = ['src/doors/acp/editor_view.c', 'src/doors/acp/editor_questions.c'].flatMap((file) => [...read(file).matchAll(/(?:\\"method\\":\\"|\? "|: ")([$a-z]+\/[a-z_]+)/g)].map(([, name]) => name));
	const [, table] = /^## Methods\n([\s\S]*?)^## /m.exec(docs);
	const rows = table.split('\n').filter((line) => line.startsWith('| `'));
	const told = rows.flatMap((row) => [...row.split('|')[1].matchAll(/`([^`]+)`/g)].map(([, name]) => name));
	assert.ok(taken.length >= 12 && sent.length >= 3, 'they are found');
	assert.deepEqual([...new Set([...taken, ...sent])].filter((name) => !told.includes(name)), []);
	assert.deepEqual(told.filter((name) => ![...taken, ...sent].includes(name)), []);
	for (const row of rows) {
		const numbers = [...row.split('|').at(-2).matchAll(/\b(\d{2,3})\b/g)].map(([, number]) => number);
		assert.ok(numbers.length > 0, row);
	}
});
