// holdfast watch and prompt on a terminal: what a person sees there, and that nothing of an agent is obeyed by it.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import { Server, binary, demoAgent, scratchDir } from '../support/server.mjs';
import { defer, eventually } from '../support/wait.mjs';

/** A command on a terminal of so many columns; `shown()` is what it has written there. */
function onTerminal(t, columns, args, env = {}) {
	const words = [binary(), ...args].map((word) => `'${word}'`).join(' ');
	const child = spawn('script', ['--quiet', '--return', '--flush', '--command', `stty cols ${columns}; exec ${words}`, join(scratchDir(t), 'typescript')], {
		stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, TERM: 'xterm', NO_COLOR: '', ...env },
	});
	let out = '';
	child.stdout.setEncoding('utf8').on('data', (more) => (out += more));
	child.stderr.setEncoding('utf8').on('data', (more) => (out += more));
	const going = { child, ended: once(child, 'close'), shown: () => out.replaceAll('\r', '') };
	going.stop = async () => { // as Ctrl-C does
		child.stdin.write('\u0003');
		assert.equal((await going.ended)[0], 130, out);
	};
	defer(t, () => child.kill('SIGKILL'));
	return going;
}

const shows = (going, what) => eventually(() => going.shown().includes(what), () => `it to show ${what}:\n${going.shown()}`);
const styles = /\u001b\[0(;\d+)*m/g;
const call = (id, more) => ({ type: 'tool_call', data: { tool_call_id: id, title: `Tool ${id}`, ...more } });
const update = (id, more) => ({ type: 'tool_call_update', data: { tool_call_id: id, ...more } });

async function begin(t, { columns = 40, args = [], env = {} } = {}) {
	const server = await Server.start(t);
	await server.createSession({ id: 's' });
	await post(server, 's', { type: 'user_prompt', data: { message: 'Please begin', prompt_id: 'p-1' } });
	const watch = onTerminal(t, columns, ['watch', 's', '--data', server.dataDir, ...args], env);
	await shows(watch, 'Please begin');
	return { server, watch };
}

test('markdown is rendered in lines of the terminal\'s width, with styles', async (t) => {
	const { server, watch } = await begin(t);
	const markdown = '# A heading\n\nSome **strong** and *soft* words with `code` that go on behind the end of the line.\n\n' +
		'- first\n- second\n  1. inner\n\n```js\nlet a = 1;\n```\n\n| a | b |\n|---|--:|\n| one | 2 |\n\n> said\n\n';
	await post(server, 's', [input.text(markdown), input.end()]);
	await shows(watch, 'end of the turn: end_turn');
	assert.match(watch.shown(), /\u001b\[0;1;34m❯ Please begin\u001b\[0m\n/);
	assert.match(watch.shown(), /\u001b\[0;1;4mA heading\u001b\[0m\n/);
	assert.match(watch.shown(), /\u001b\[0;1mstrong\u001b\[0m and \u001b\[0;3msoft\u001b\[0m/);
	const text = watch.shown().replace(styles, '');
	assert.match(text, /\nSome strong and soft words with code\nthat go on behind the end of the line\.\n\n• first\n• second\n {2}1\. inner\n\n {4}let a = 1;\n\na {3}│ b\n────┼──\none │ 2\n\n│ said\n\n── end of the turn: end_turn\n/);
	assert.doesNotMatch(text, /\u001b|\*\*|`/);
	await watch.stop();
});

test('NO_COLOR and a dumb terminal get no escape sequence, and --plain the markdown as it is', async (t) => {
	for (const [env, args, wanted] of [
		[{ NO_COLOR: '1' }, [], /\n\*\*strong\*\* `code`\n\n {4}a\n/],
		[{ TERM: 'dumb' }, [], /\n\*\*strong\*\* `code`\n\n {4}a\n/],
		[{}, ['--plain'], /\n\*\*strong\*\* `code`\n\n```\na\n```\n/],
	]) {
		const { server, watch } = await begin(t, { env, args });
		await post(server, 's', [input.text('**strong** `code`\n\n```\na\n```\n\n'), input.end()]);
		await shows(watch, 'end of the turn');
		assert.match(watch.shown(), wanted);
		assert.doesNotMatch(watch.shown(), /\u001b/);
		await watch.stop();
	}
});

test('a tool is a card for each of its states, with the beginning of what it said', async (t) => {
	const { server, watch } = await begin(t);
	const lines = Array.from({ length: 12 }, (_, i) => `line ${i}`).join('\n');
	await post(server, 's', [
		call('a', { status: 'pending' }), update('a', { status: 'in_progress' }), update('a', { title: 'Tool a, renamed' }),
		update('a', { status: 'completed', content: [{ type: 'content', content: { type: 'text', text: lines } }, { type: 'diff', path: 'src/x.c', old_text: '1\n2\n', new_text: '1\n2\n3\n' }] }),
		call('b'), update('b', { status: 'failed' }), call('c', { status: 'completed' }),
		{ type: 'plan', data: { entries: [{ content: 'One', priority: 'high', status: 'completed' }, { content: 'Two', priority: 'low', status: 'in_progress' }, { content: 'Three', priority: 'low', status: 'pending' }] } },
		input.end(),
	]);
	await shows(watch, 'end of the turn');
	const cards = '\n○ Tool a (pending)\n◐ Tool a (in_progress)\n✔ Tool a, renamed (completed)\n' +
		`${Array.from({ length: 8 }, (_, i) => `    line ${i}\n`).join('')}    … 4 more lines\n  ± src/x.c: 2 lines, now 3\n○ Tool b (pending)\n✘ Tool b (failed)\n✔ Tool c (completed)\n`;
	const text = watch.shown().replace(styles, '');
	assert.ok(text.includes(`${cards}\nPlan\n  ☑ One\n  ◐ Two\n  ☐ Three\n`), text);
	assert.match(watch.shown(), /\u001b\[0;31m✘ Tool b/);
	await watch.stop();
});

test('a question is shown with its answers, and which of them was given', async (t) => {
	const { server, watch } = await begin(t);
	await post(server, 's', { type: 'permission_request', data: {
		request_id: 'q-1', tool_call: { tool_call_id: 'x', title: 'Remove all' },
		options: [{ option_id: 'yes', name: 'Do it', kind: 'allow_once' }, { option_id: 'no', name: 'Leave it', kind: 'reject_once' }],
	} });
	await shows(watch, '2. Leave it');
	assert.match(watch.shown().replace(styles, ''), /\n\? The agent asks: Remove all\n {2}1\. Do it\n {2}2\. Leave it\n/);
	await post(server, 's', { type: 'permission_resolved', data: { request_id: 'q-1', outcome: 'selected', option_id: 'no' } });
	await shows(watch, '→ Leave it');
	await watch.stop();
});

test('nothing of an agent is obeyed by the terminal', async (t) => {
	const { server, watch } = await begin(t);
	const evil = '\u001b[2J\u001b]0;owned\u0007\u009b31m\u202egnol\u0008\u0007\u061c\u200b\u{e0041}x';
	await post(server, 's', [
		input.text(`# ${evil}\n\n- ${evil} \`${evil}\`\n\n\`\`\`${evil}\n${evil}\n\`\`\`\n\n| ${evil} |\n|---|\n| ${evil} |\n\n[a](http://x.example/${evil}) &#27;[31m\n\n`),
		call(evil, { title: evil, status: 'pending' }), update(evil, { status: 'completed', content: [{ type: 'content', content: { type: 'text', text: `${evil}\n${evil}` } }] }),
		{ type: 'plan', data: { entries: [{ content: evil, priority: 'high', status: 'pending' }] } },
		{ type: 'permission_request', data: { request_id: 'q', tool_call: { tool_call_id: 'y', title: evil }, options: [{ option_id: 'o', name: evil, kind: 'allow_once' }] } },
		{ type: 'agent_thought_chunk', data: { text: evil } },
		{ type: 'turn_end', data: { stop_reason: 'error', message: `the end ${evil}` } },
	]);
	await shows(watch, 'the end');
	const rest = watch.shown().replace(styles, '');
	assert.match(rest, /gnol/);
	assert.doesNotMatch(rest, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e0fff}]/u);
	assert.doesNotMatch(rest, /owned/);
	await watch.stop();
});

test('it goes on over a restart of the server', async (t) => {
	const { server, watch } = await begin(t);
	await post(server, 's', [input.text('Before.\n\n'), input.end()]);
	await shows(watch, 'Before.');
	const listen = new URL(server.url).port;
	await server.kill9();
	const again = await Server.start(t, { dataDir: server.dataDir, listen: [`127.0.0.1:${listen}`] });
	await post(again, 's', [input.text('Behind it.\n\n'), input.end()]);
	await shows(watch, 'Behind it.');
	assert.equal(watch.shown().split('Before.').length, 2, 'each event is shown once');
	await watch.stop();
});

test('prompt shows its turn in the same way', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	const prompt = onTerminal(t, 60, ['prompt', 'talk', 'table tool', '--create', '--data', server.dataDir]);
	assert.equal((await prompt.ended)[0], 0, prompt.shown());
	const text = prompt.shown().replace(styles, '');
	assert.match(text, /^❯ table tool\n/);
	assert.match(text, / │ .*\n─+┼─/);
	assert.match(text, /\n✔ .* \(completed\)\n/);
	assert.match(text, /\n✘ .* \(failed\)\n/);
	assert.match(text, /── end of the turn: end_turn\n$/);
});
