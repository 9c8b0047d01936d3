// An agent that uses every way there is to say what a token can hide. The words begin with "thought-" and "tool-", so that
// they can be searched for; all others begin with "open-". A prompt "ask" waits for an answer in the middle of it. The first
// thought goes on when there is a file "seen" in the directory.

import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';

const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const update = (sessionUpdate, rest) => say({ method: 'session/update', params: { sessionId: 's', update: { sessionUpdate, ...rest } } });
const text = (words) => ({ content: { type: 'text', text: words } });
const image = (words) => ({ content: { type: 'image', data: Buffer.from(words).toString('base64'), mimeType: `image/${words}` } });
const later = (ms) => new Promise((done) => setTimeout(done, ms));

let lastId = 0;
const waiting = new Map();

function ask(method, params) {
	const id = `r${(lastId += 1)}`;
	say({ id, method, params: { sessionId: 's', ...params } });
	return new Promise((resolve) => waiting.set(id, resolve));
}

function call(id) {
	return {
		toolCallId: id,
		title: 'tool-title',
		kind: 'execute',
		status: 'in_progress',
		content: [{ type: 'content', ...text('tool-content') }, { type: 'diff', path: '/tool-diff', oldText: 'tool-old', newText: 'tool-new' }],
		locations: [{ path: '/tool-location', line: 1 }],
		rawInput: { command: 'tool-input' },
		_meta: { 'tool-meta': true },
	};
}

async function play(prompt, cwd) {
	update('agent_message_chunk', text('open-begin\n\n'));
	update('agent_thought_chunk', { ...text('thought-text '), messageId: 'thought-message', _meta: { of: 'thought-meta' } });
	while (!existsSync(`${cwd}/seen`)) {
		await later(20);
	}
	update('agent_thought_chunk', text('thought-more'));
	update('agent_thought_chunk', image('thought-image'));
	update('agent_message_chunk', image('open-image'));
	update('agent_message_chunk', text('- open-item\n'));
	await later(150);
	update('tool_call', call('tool-held'));
	update('agent_thought_chunk', text('thought-held'));
	update('agent_message_chunk', text('- open-second\n\nopen-after\n\n'));
	update('tool_call_update', { toolCallId: 'tool-held', status: 'completed', rawOutput: { text: 'tool-output' } });
	update('plan', { entries: [{ content: 'tool-plan', priority: 'high', status: 'pending' }] });
	await ask('fs/write_text_file', { path: `${cwd}/tool-file.txt`, content: 'tool-written\n' });
	await ask('fs/read_text_file', { path: `${cwd}/tool-file.txt` });
	const { result } = await ask('terminal/create', { command: 'echo', args: ['tool-echoed'], cwd });
	await ask('terminal/wait_for_exit', { terminalId: result?.terminalId });
	await ask('terminal/release', { terminalId: result?.terminalId });
	update('thing_nobody_knows', { words: 'tool-thought-other' });
	say({ method: '_tool/thought', params: { words: 'tool-thought-notification' } });
	update('agent_message_chunk', text('- open-list\n'));
	if (prompt === 'ask') {
		await ask('session/request_permission', {
			toolCall: call('tool-asked'),
			options: [{ optionId: 'tool-option', name: 'tool-name', kind: 'allow_once' }],
		});
	}
	update('agent_message_chunk', text('open-end\n\n'));
}

const methods = {
	initialize: () => ({ protocolVersion: 1, agentInfo: { name: 'secret' } }),
	'session/new': ({ cwd }) => {
		methods.cwd = cwd;
		setImmediate(() => update('available_commands_update', { availableCommands: [{ name: 'open-command', description: 'open' }] }));
		return { sessionId: 's', modes: { currentModeId: 'open', availableModes: [{ id: 'open', name: 'open-mode' }] } };
	},
	'session/prompt': async ({ prompt: [{ text: words }] }) => {
		await play(words, methods.cwd);
		return { stopReason: 'end_turn', usage: { inputTokens: 5, outputTokens: 7, totalTokens: 12 } };
	},
};

createInterface({ input: process.stdin }).on('line', async (line) => {
	const { id, method, params, ...answer } = JSON.parse(line);
	if (!method) {
		waiting.get(id)?.(answer);
	} else if (id !== undefined) {
		say({ id, result: (await methods[method]?.(params)) ?? {} });
	}
});
