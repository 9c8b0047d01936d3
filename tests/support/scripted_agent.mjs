// An ACP agent for tests, as raw as they want it: a test gives functions as text, and this starts them as a program.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { scratchDir } from './server.mjs';

// What each program begins with: `raw` writes bytes, `say` a message, `on` is called with each message that comes.
const PRELUDE = `
const { createInterface } = require('node:readline');
const raw = (bytes) => process.stdout.write(bytes);
const line = (message) => JSON.stringify({ jsonrpc: '2.0', ...message });
let say = (message) => raw(line(message) + '\\n');
const update = (u) => say({ method: 'session/update', params: { sessionId: 's', update: u } });
const text = (t) => update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: t } });
const waits = new Map();
const ask = (id, method, params) => new Promise((done) => { waits.set(String(id), done); say({ id, method, params }); });
let answer = (id, result) => say({ id, result });
const on = {
	initialize: ({ id }) => answer(id, { protocolVersion: 1 }),
	'session/new': ({ id }) => answer(id, { sessionId: 's' }),
	'session/prompt': ({ id }) => answer(id, { stopReason: 'end_turn' }),
};
createInterface({ input: process.stdin }).on('line', (json) => {
	const message = JSON.parse(json);
	if (message.method) {
		on[message.method]?.(message);
	} else {
		waits.get(String(message.id))?.(message);
	}
}).on('close', () => process.exit(0));
`;

/** A command line for --agent: a program with `raw`, `say`, `update`, `text`, `ask`, `answer` and `on` of its own, and then this code. */
export function scriptedAgent(t, code) {
	const file = join(scratchDir(t), 'agent.cjs');
	writeFileSync(file, `${PRELUDE}\n${code}`);
	return `exec ${process.execPath} ${file}`;
}
