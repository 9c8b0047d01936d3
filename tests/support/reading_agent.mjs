// An agent that reads the file which a prompt names, below its directory, and says so before.

import { createInterface } from 'node:readline';

const line = (message) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`;
const say = (...messages) => process.stdout.write(messages.map(line).join(''));
let cwd;
let prompt;

createInterface({ input: process.stdin }).on('line', (text) => {
	const { id, method, params, result } = JSON.parse(text);
	if (method === 'initialize') {
		say({ id, result: { protocolVersion: 1 } });
	} else if (method === 'session/new') {
		cwd = params.cwd;
		say({ id, result: { sessionId: 's' } });
	} else if (method === 'session/prompt') {
		prompt = id;
		const path = `${cwd}/${params.prompt[0].text}`;
		const content = { type: 'text', text: 'I read it.\n\n' };
		// In one piece: whoever sees the text knows that the request has come, too.
		say({ method: 'session/update', params: { sessionId: 's', update: { sessionUpdate: 'agent_message_chunk', content } } },
			{ id: 'read', method: 'fs/read_text_file', params: { sessionId: 's', path } });
	} else if (id === 'read') {
		say({ id: prompt, result: { stopReason: result ? 'end_turn' : 'refusal' } });
	}
});
