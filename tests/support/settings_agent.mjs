// An agent with modes, an option and a command. It tells a new mode by its answer alone, and its option by a
// notification too; "other" it accepts, and keeps what it had. It knows no mode "never". With MODELS=1 it has models instead of the option, and tells a new one by its answer alone. With RESUME=1 it goes on with its session, in the mode it begins with. Each prompt has a figure of what it used, as Gemini's have.

import { createInterface } from 'node:readline';

const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const update = (u) => say({ method: 'session/update', params: { sessionId: 's', update: u } });
const availableModes = [{ id: 'ask', name: 'Ask' }, { id: 'code', name: 'Code' }];
let mode = 'ask';
let model = 'small';

const availableModels = [{ modelId: 'small', name: 'Small' }, { modelId: 'large', name: 'Large', description: 'Slow' }];
const models = () => (process.env.MODELS ? { models: { currentModelId: model, availableModels } } : { configOptions: options() });
const options = () => [{
	id: 'model', name: 'Model', type: 'select', currentValue: model,
	options: [{ value: 'small', name: 'Small' }, { value: 'large', name: 'Large' }],
}];

const methods = {
	initialize: () => ({ protocolVersion: 1, agentInfo: { name: 'settings' }, ...(process.env.RESUME && { agentCapabilities: { sessionCapabilities: { resume: {} } } }) }),
	'session/resume': () => ({ modes: { currentModeId: mode, availableModes }, ...models() }),
	'session/new': () => {
		setImmediate(() => update({ sessionUpdate: 'available_commands_update', availableCommands: [{ name: 'plan', description: 'Make a plan' }] }));
		return { sessionId: 's', modes: { currentModeId: mode, availableModes }, ...models() };
	},
	'session/set_mode': ({ modeId }) => {
		if (!availableModes.some(({ id }) => id === modeId)) {
			throw new Error(`there is no mode "${modeId}"`);
		}
		mode = modeId;
		return {};
	},
	'session/set_model': ({ modelId }) => {
		if (!process.env.MODELS || !availableModels.some((one) => one.modelId === modelId)) {
			throw new Error(`there is no model "${modelId}"`);
		}
		model = modelId;
		return {};
	},
	'session/set_config_option': ({ value }) => {
		if (value === 'other') {
			return { configOptions: options() };
		}
		model = value;
		update({ sessionUpdate: 'config_option_update', configOptions: options() });
		return { configOptions: options() };
	},
	'session/prompt': ({ prompt: [{ text }] }) => {
		if (text === 'exit') {
			process.exit(0);
		}
		update({ sessionUpdate: 'session_info_update', title: `About ${text}` });
		update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: `in mode ${mode}` } });
		const token_count = { input_tokens: 10, output_tokens: 2 };
		return { stopReason: 'end_turn', _meta: { quota: { token_count, model_usage: [{ model, token_count }] } } };
	},
};

createInterface({ input: process.stdin }).on('line', (line) => {
	const { id, method, params } = JSON.parse(line);
	try {
		say({ id, result: methods[method](params) });
	} catch ({ message }) {
		say({ id, error: { code: -32602, message } });
	}
});
