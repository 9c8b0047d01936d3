// An agent that says where it is and what it was given, as JSON in a code block; with "write PATH" whether it can write that file.

import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
let asked = {};

function write(path) {
	try {
		writeFileSync(path, 'x');
		return 'written';
	} catch ({ code }) {
		return code;
	}
}

const methods = {
	initialize: () => ({ protocolVersion: 1, agentInfo: { name: 'project' }, agentCapabilities: {} }),
	'session/new': ({ cwd, mcpServers }) => {
		asked = { cwd, mcpServers };
		return { sessionId: 's' };
	},
	'session/prompt': ({ prompt: [{ text }] }) => {
		const [word, path] = text.split(' ');
		const answer = word === 'write' ? write(path) : JSON.stringify({ ...asked, in: process.cwd(), name: process.env.AGENT_NAME ?? null, common: process.env.COMMON ?? null });
		const update = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: answer } };
		say({ method: 'session/update', params: { sessionId: 's', update } });
		return { stopReason: 'end_turn' };
	},
};

createInterface({ input: process.stdin }).on('line', (line) => {
	const { id, method, params } = JSON.parse(line);
	if (methods[method]) {
		say({ id, result: methods[method](params) });
	}
});
