// An agent that asks for things: `form`, `url`, `many` (three at once), `bad …` (what nobody can be asked), `withdraw` (takes its question back), and says what it was answered.

import { createInterface } from 'node:readline';

const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const text = (words) => say({ method: 'session/update', params: { sessionId: 's', update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: `${words}\n\n` } } } });
const waits = new Map();
let last = 0;
const ask = (params) => new Promise((done) => {
	waits.set(++last, done);
	say({ id: last, method: 'elicitation/create', params: { sessionId: 's', ...params } });
});

export const FORM = {
	mode: 'form', message: 'Who are you, and what may I do?',
	requestedSchema: {
		type: 'object', required: ['name', 'age'],
		properties: {
			name: { type: 'string', title: 'Your name', minLength: 2, maxLength: 40 },
			age: { type: 'integer', title: 'Age', minimum: 0, maximum: 150 },
			share: { type: 'number', title: 'Share', minimum: 0, maximum: 1 },
			loud: { type: 'boolean', title: 'Aloud', default: false },
			colour: { type: 'string', title: 'Colour', oneOf: [{ const: 'r', title: 'Red' }, { const: 'b', title: 'Blue' }] },
			size: { type: 'string', title: 'Size', enum: ['small', 'large'] },
			days: { type: 'array', title: 'Days', items: { type: 'string', enum: ['mon', 'tue', 'wed'] }, maxItems: 2 },
		},
	},
};
const URL_MODE = { mode: 'url', message: 'Sign in over there.', elicitationId: 'e-1', url: 'https://example.com/sign-in?x=1' };
const BAD = {
	script: { mode: 'url', message: 'm', elicitationId: 'x', url: 'javascript:alert(1)' }, file: { mode: 'url', message: 'm', elicitationId: 'x', url: 'file:///etc/passwd' }, user: { mode: 'url', message: 'm', elicitationId: 'x', url: 'https://me:secret@example.com/' },
	space: { mode: 'url', message: 'm', elicitationId: 'x', url: 'https://example.com/ x' }, port: { mode: 'url', message: 'm', elicitationId: 'x', url: 'https://example.com:99999/' }, id: { mode: 'url', message: 'm', url: 'https://example.com/' }, mode: { mode: 'else', message: 'm' },
	message: { mode: 'form', requestedSchema: { type: 'object', properties: {} } }, schema: { mode: 'form', message: 'm' }, object: { mode: 'form', message: 'm', requestedSchema: { type: 'object', properties: { a: { type: 'object' } } } },
	choices: { mode: 'form', message: 'm', requestedSchema: { type: 'object', properties: { a: { type: 'string', enum: [1] } } } }, fields: { mode: 'form', message: 'm', requestedSchema: { type: 'object', properties: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`f${i}`, { type: 'string' }])) } },
	large: { mode: 'form', message: 'x'.repeat(70_000), requestedSchema: { type: 'object', properties: {} } },
};

const prompts = {
	form: async () => text(`answer ${JSON.stringify(await ask(FORM))}`),
	url: async () => {
		text(`answer ${JSON.stringify(await ask(URL_MODE))}`);
		say({ method: 'elicitation/complete', params: { elicitationId: 'e-1' } });
	},
	many: async () => {
		for (const answer of await Promise.all([ask(FORM), ask(URL_MODE), ask({ ...FORM, message: 'Again?' })])) {
			text(`answer ${JSON.stringify(answer)}`);
		}
	},
	withdraw: async () => {
		const answer = ask(FORM);
		say({ method: '$/cancel_request', params: { requestId: last } });
		text(`answer ${JSON.stringify(await answer)}`);
	},
	bad: async () => {
		for (const [name, params] of Object.entries(BAD)) {
			text(`${name} ${JSON.stringify(await ask(params))}`);
		}
	},
};

const methods = {
	initialize: ({ clientCapabilities }) => ({ protocolVersion: 1, agentInfo: { name: 'asker', title: JSON.stringify(clientCapabilities.elicitation) } }),
	'session/new': () => ({ sessionId: 's' }),
	'session/prompt': async ({ prompt }) => {
		await prompts[prompt[0].text]?.();
		return { stopReason: cancelled ? 'cancelled' : 'end_turn' };
	},
};
let cancelled = false;

if (process.argv[1]?.endsWith('elicitation_agent.mjs')) {
	createInterface({ input: process.stdin }).on('line', async (line) => {
		const { id, method, params, result, error } = JSON.parse(line);
		if (!method) {
			waits.get(id)?.(result ?? { error: error.code });
			waits.delete(id);
		} else if (method === 'session/cancel') {
			cancelled = true;
		} else if (id !== undefined) {
			cancelled = false;
			say({ id, result: await methods[method](params) });
		}
	});
}
