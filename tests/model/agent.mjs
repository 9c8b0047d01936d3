// An ACP agent that does what its prompt says: `say N` is a script made from the number N, which the model knows too. It remembers
// nothing: whoever starts it again has another agent.

import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { Random } from './rig.mjs';

/** What the agent does on `say N`, step by step: {kind, …}. */
export function script(n) {
	const random = new Random(n * 7919 + 1);
	return Array.from({ length: 1 + random.below(12) }, (_, i) => {
		const kind = random.weighted([[6, 'text'], [2, 'thought'], [3, 'tool'], [1, 'plan'], [2, 'permission'], [2, 'pause']]);
		const token = `p${n}w${i}.`;
		return { kind, token, text: `${token}${random.pick([' word ', '\n', '\n\n', '\n- ', '\n\n```\n', '\n```\n\n', ' é😀 '])}`, ms: random.below(60) };
	});
}

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const waiting = new Map();
let asked = 0;
let cancelled = false;

function request(method, params) {
	const id = ++asked;
	send({ id, method, params });
	return new Promise((resolve) => waiting.set(id, resolve));
}

async function run(sessionId, steps) {
	const update = (sessionUpdate, data) => send({ method: 'session/update', params: { sessionId, update: { sessionUpdate, ...data } } });
	for (const { kind, token, text, ms } of steps) {
		if (cancelled) {
			return 'cancelled';
		}
		const tool = { toolCallId: `c-${token}`, title: token, kind: 'other', status: 'pending' };
		switch (kind) {
		case 'text': update('agent_message_chunk', { content: { type: 'text', text } }); break;
		case 'thought': update('agent_thought_chunk', { content: { type: 'text', text } }); break;
		case 'tool':
			update('tool_call', tool);
			update('tool_call_update', { toolCallId: tool.toolCallId, status: 'completed' });
			break;
		case 'plan': update('plan', { entries: [{ content: token, priority: 'medium', status: 'pending' }] }); break;
		case 'permission': {
			const options = ['yes', 'no', 'never'].map((optionId) => ({ optionId, name: optionId, kind: optionId === 'yes' ? 'allow_once' : 'reject_once' }));
			const { outcome } = await request('session/request_permission', { sessionId, toolCall: { ...tool, rawInput: { token } }, options });
			update('agent_message_chunk', { content: { type: 'text', text: `${token}${outcome.optionId ?? outcome.outcome}; ` } });
			break;
		}
		default: await pause(ms);
		}
	}
	return cancelled ? 'cancelled' : 'end_turn';
}

async function handle({ id, method, params }) {
	switch (method) {
	case 'initialize': return send({ id, result: { protocolVersion: 1, agentCapabilities: {}, authMethods: [] } });
	case 'session/new': return send({ id, result: { sessionId: `agent-${process.pid}` } });
	case 'session/cancel': cancelled = true; return undefined;
	case 'session/prompt': {
		cancelled = false;
		const n = Number(/say (\d+)/.exec(params.prompt.map((b) => b.text).join(''))[1]);
		return send({ id, result: { stopReason: await run(params.sessionId, script(n)) } });
	}
	default: return id !== undefined && send({ id, error: { code: -32601, message: 'not known here' } });
	}
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
	createInterface({ input: process.stdin }).on('line', (line) => {
		const message = JSON.parse(line);
		if (message.method) {
			handle(message);
		} else {
			waiting.get(message.id)?.(message.result ?? { outcome: { outcome: 'error' } });
			waiting.delete(message.id);
		}
	}).on('close', () => process.exit());
}
