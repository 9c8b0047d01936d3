// Real agents, with a stub in place of their model, through the real server; too heavy for every run.
//
//   node tests/agents/real.mjs DIR [AGENT ...]
//
// DIR holds a folder for each agent with its npm package installed: goose (@aaif/goose-binary-linux-x64@0.20.1),
// opencode (opencode-linux-x64@1.18.33), claude (@zed-industries/claude-code-acp@0.16.2). The stub of their
// model is a program of its own (HOLDFAST_MOCKLLM is its path). The binaries are found as the tests find them.
// Each agent is killed twice, between two turns and in the middle of one, and prompted again: it goes on with its session,
// and what it tells of its history adds nothing. A chat of the AI SDK asks it, and answers its questions.
// It prints what came. The exit code is 0 if all was as it should be.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { openChat } from '../support/ai_chat.mjs';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Server } from '../support/server.mjs';

const mockllm = process.env.HOLDFAST_MOCKLLM;
assert.ok(mockllm, 'HOLDFAST_MOCKLLM is the path of the stub');
const PORT = 18300 + (process.pid % 500);
const url = `http://127.0.0.1:${PORT}`;

/** Each agent: its command in DIR/name, its environment, and files of its home. */
const agents = {
	goose: {
		command: (dir) => `${dir}/node_modules/.bin/goose acp`,
		env: { GOOSE_PROVIDER: 'openai', GOOSE_MODEL: 'mock-model', OPENAI_HOST: url, OPENAI_API_KEY: 'k', GOOSE_MODE: 'approve', GOOSE_DISABLE_KEYRING: '1' },
		terminals: true,
		files: true,
	},
	opencode: {
		command: (dir) => `${dir}/node_modules/opencode-linux-x64/bin/opencode acp`,
		home: { '.config/opencode/opencode.json': JSON.stringify({
			provider: { mock: { npm: '@ai-sdk/openai-compatible', name: 'Mock', options: { baseURL: `${url}/v1`, apiKey: 'k' }, models: { 'mock-model': { name: 'Mock' } } } },
			model: 'mock/mock-model', permission: { edit: 'ask', bash: 'ask' }, autoupdate: false, share: 'disabled',
		}) },
	},
	claude: {
		command: (dir) => `${process.execPath} ${dir}/node_modules/@zed-industries/claude-code-acp/dist/index.js`,
		env: { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'k', IS_SANDBOX: '1', DISABLE_TELEMETRY: '1' },
		terminals: true,
		files: true,
		models: true,
	},
};

/** What stands in for node:test's context: cleaning up is all that the support files want of it. */
const cleanups = [];
const t = { after: (f) => cleanups.push(f) };

async function startModel() {
	const child = spawn(process.execPath, [mockllm, '--port', String(PORT), '--delay', '2'], { stdio: ['ignore', 'pipe', 'inherit'] });
	await new Promise((done) => child.stdout.once('data', done));
	cleanups.push(() => child.kill());
}

/** Allows what is asked until the turn is over; gives its events. */
async function turn(observer, message) {
	const { seq } = await observer.prompt(message);
	for (let after = seq; ;) {
		const event = await observer.waitForEvent((e) => ['permission_request', 'turn_end', 'agent_stopped'].includes(e.type), { after, ms: 90_000 });
		after = event.seq;
		if (event.type !== 'permission_request') {
			return observer.events().slice(seq - 1);
		}
		const option = event.data.options.find((o) => o.kind === 'allow_once') ?? event.data.options[0];
		await observer.send('permission_answer', { request_id: event.data.request_id, option_id: option.option_id });
	}
}

function count(events) {
	const counts = {};
	events.forEach(({ type }) => (counts[type] = (counts[type] ?? 0) + 1));
	return Object.entries(counts).map(([type, n]) => `${type} ${n}`).join(', ');
}

const textOf = (events) => events.filter((e) => e.type === 'agent_message').map((e) => e.data.markdown).join('');
const isTold = (type) => type.startsWith('x-acp-') || ['user_prompt', 'agent_started', 'agent_thought', 'agent_message', 'usage', 'turn_end'].includes(type);

function childrenOf(pid) {
	return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).filter((name) => {
		try {
			const [, parent] = readFileSync(`/proc/${name}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ');
			return Number(parent) === pid;
		} catch {
			return false; // it has ended
		}
	}).map(Number);
}

/** Kills the agent as the system does that runs out of memory, with all that it has started. */
async function killAgent(server, observer) {
	const after = observer.last;
	// Below the server is what starts agents, below that the guards of the agent, of its commands and of what reads files for it.
	const isHelper = (pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[1]?.startsWith('agent-');
	const agents = childrenOf(server.pid).flatMap(childrenOf).flatMap(childrenOf).filter((pid) => !isHelper(pid));
	assert.equal(agents.length, 1, `the agent's process: ${agents}`);
	process.kill(-agents[0], 'SIGKILL');
	await observer.waitForEvent('agent_stopped', { after, ms: 30_000 });
}

/** After a kill: a turn whose answer is known. Nothing comes but that. */
async function goOn(name, observer, { when, message, text }) {
	const before = observer.last;
	const events = await turn(observer, message);
	const { resumed, resume_error: why } = events.find((e) => e.type === 'agent_started').data;
	console.log(`${name} killed ${when}: ${count(events)}; resumed ${resumed}${why ? ` (${why})` : ''}`);
	assert.equal(events[0].seq, before + 1);
	assert.equal(resumed, true, why);
	assert.deepEqual(events.filter((e) => e.data.recovered), []);
	assert.deepEqual(events.map((e) => e.type).filter((type) => !isTold(type)), []);
	assert.equal(textOf(events).trim(), text.trim());
	assert.equal(events.at(-1).data.stop_reason, 'end_turn');
}

/** Kills the agent when it has nothing to do, and when it is in the middle of an answer. */
async function killTwice(name, server, observer, { message, text }) {
	await killAgent(server, observer);
	await goOn(name, observer, { when: 'between two turns', message, text });
	const { seq } = await observer.prompt(message.replace(']]', ' delay=50]]'));
	await observer.waitForEvent('agent_message', { after: seq, ms: 90_000 });
	await killAgent(server, observer);
	await goOn(name, observer, { when: 'in the middle of a turn', message, text });
}

/** It has models instead of an option: another one is chosen, and the turn after that is of it. */
async function chooseModel(name, observer) {
	const { seq, data } = await observer.waitForEvent('x-acp-models', { ms: 30_000 });
	const { model_id: wanted } = data.available_models.find(({ model_id: id }) => id !== data.current_model_id);
	await observer.send('set_model', { model_id: wanted });
	const told = await observer.waitForEvent('x-acp-models', { after: seq, ms: 30_000 });
	assert.equal(told.data.current_model_id, wanted);
	assert.deepEqual(told.data.available_models, data.available_models);
	console.log(`${name} model: ${data.current_model_id} became ${wanted}, of ${data.available_models.length}`);
}

/** A turn by a chat of the AI SDK: it allows what is asked, and says what the log has. */
async function chat(name, server, id, observer, message) {
	const client = openChat(t, server, id);
	const isReady = () => ['ready', 'error'].includes(client.status);
	let after = observer.last;
	client.sendMessage({ text: message });
	for (;;) {
		const event = await observer.waitForEvent((e) => ['permission_request', 'turn_end', 'agent_stopped'].includes(e.type), { after, ms: 90_000 });
		after = event.seq;
		if (event.type !== 'permission_request') {
			break;
		}
		const isAsked = ({ state, approval }) => state === 'approval-requested' && approval.id === event.data.request_id;
		await client.until(() => isReady() && client.messages.at(-1).parts.some(isAsked));
		await client.addToolApprovalResponse({ id: event.data.request_id, approved: true });
	}
	const { turn: number } = observer.events().at(-1);
	const events = observer.events().filter((e) => e.turn === number);
	const tools = () => client.messages.at(-1).parts.filter(({ type }) => type === 'dynamic-tool');
	await client.until(() => isReady() && client.text === textOf(events));
	assert.deepEqual(client.errors, []);
	assert.deepEqual(new Set(tools().map(({ toolCallId }) => toolCallId)), new Set(events.filter((e) => e.type === 'tool_call').map((e) => e.data.tool_call_id)));
	assert.ok(tools().every(({ state }) => state.startsWith('output-')));
	console.log(`${name} chat: ${count(events)}; ${tools().length} tools in ${client.messages.length} messages`);
}

async function play(name, dir) {
	const { command, env = {}, home = {}, terminals, files, models } = agents[name];
	const base = mkdtempSync(join(tmpdir(), `holdfast-${name}-`));
	const cwd = join(base, 'project');
	mkdirSync(cwd);
	writeFileSync(join(cwd, 'hello.txt'), 'hello world\n');
	for (const [file, text] of Object.entries(home)) {
		mkdirSync(join(base, 'home', file, '..'), { recursive: true });
		writeFileSync(join(base, 'home', file), text);
	}
	mkdirSync(join(base, 'home'), { recursive: true });
	const given = { ...env, HOME: join(base, 'home'), XDG_CONFIG_HOME: join(base, 'home/.config'), XDG_DATA_HOME: join(base, 'home/.local/share') };
	const server = await Server.start(t, {
		agent: `exec ${command(join(dir, name))}`, cwd, env: given, args: Object.keys(given).map((variable) => `--agent-env=${variable}`),
	});
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	const seen = [];
	const messageOf = (script) => `Please go on. [[mock:${script} cwd=${cwd}]]`;
	for (const script of ['markdown', 'tools', 'edit', 'middle']) {
		const events = await turn(observer, messageOf(script));
		console.log(`${name} ${script}: ${count(events)}; ${events.at(-1).data.stop_reason ?? events.at(-1).data.reason}`);
		assert.equal(events.at(-1).data.stop_reason, 'end_turn', JSON.stringify(events.at(-1)));
		seen.push(...events);
		if (models && script === 'markdown') {
			await chooseModel(name, observer);
		}
	}
	const writes = seen.filter((e) => e.type === 'file_write');
	// Through the stub, claude gives a command so little time that it may be released before it has ended.
	const ends = seen.filter((e) => e.type === 'x-acp-terminal' && e.data.status !== 'running');
	writes.forEach((e) => console.log(`${name}   wrote ${e.data.path}: ${JSON.stringify(e.data.diff)}`));
	ends.forEach((e) => console.log(`${name}   ran a command: ${JSON.stringify(e.data)}`));
	assert.ok(!files || (writes.length > 0 && writes.every((e) => typeof e.data.diff === 'string')), 'it writes through us');
	assert.ok(!terminals || ends.length > 0, 'it runs commands through us');
	const first = seen.slice(0, seen.findIndex((e) => e.type === 'turn_end') + 1);
	await killTwice(name, server, observer, { message: messageOf('markdown'), text: textOf(first) });
	await chat(name, server, id, observer, messageOf('edit'));
	const events = observer.events();
	assert.deepEqual(events.map((e) => e.seq), events.map((_, i) => i + 1));
	assert.deepEqual(readLog(server, id).slice(0, events.length), events);
	const { pid } = server;
	await server.stop();
	const left = readdirSync('/proc').filter((p) => /^\d+$/.test(p)).filter((p) => {
		try {
			return readFileSync(`/proc/${p}/environ`, 'utf8').includes(base) && Number(p) !== pid;
		} catch {
			return false;
		}
	});
	assert.deepEqual(left, [], 'processes of the agent that are left');
	console.log(`${name}: ${events.length} events, the log is the same, no process is left`);
	rmSync(base, { recursive: true, force: true });
}

const [dir, ...names] = process.argv.slice(2);
let failed = 0;
await startModel();
for (const name of names.length > 0 ? names : Object.keys(agents).filter((n) => existsSync(join(resolve(dir), n)))) {
	try {
		await play(name, resolve(dir));
	} catch (error) {
		failed++;
		console.log(`${name}: FAILED: ${error.stack}`);
	}
}
for (const cleanup of cleanups.reverse()) {
	await cleanup();
}
console.log(failed === 0 ? 'all as it should be' : `${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
