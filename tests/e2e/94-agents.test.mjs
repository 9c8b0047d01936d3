// --agents FILE: a session has one of several agents and a directory below its roots, for good.

import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Observer } from '../support/observer.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { Server, demoAgent, runToEnd, scratchDir } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';

const AGENT = `${process.execPath} ${fileURLToPath(new URL('../support/project_agent.mjs', import.meta.url))}`;
const DB = { name: 'db', command: '/bin/db', args: ['-v'], env: [] };

function makeDirs(t) {
	const dir = scratchDir(t);
	for (const name of ['one/api', 'one/app', 'one/.git', 'two', 'outside/secret']) {
		mkdirSync(join(dir, name), { recursive: true });
	}
	writeFileSync(join(dir, 'one/a-file'), '');
	symlinkSync(join(dir, 'outside'), join(dir, 'one/away'));
	symlinkSync(join(dir, 'one/app'), join(dir, 'one/link'));
	return dir;
}

const agentsOf = (dir) => [
	{ name: 'first', command: AGENT, roots: [join(dir, 'one')] },
	{ name: 'second', title: 'The second', command: AGENT, env: ['AGENT_NAME=second'], roots: [join(dir, 'two'), join(dir, 'one/api')], mcp_servers: [{ name: 'db', command: '/bin/db', args: ['-v'] }] },
	{ name: 'demo', command: demoAgent() },
];

async function start(t, { agents, args = [], ...options } = {}) {
	const dir = makeDirs(t);
	const file = join(dir, 'agents.json');
	writeFileSync(file, JSON.stringify({ agents: agents?.(dir) ?? agentsOf(dir) }));
	const server = await Server.start(t, { cwd: join(dir, 'two'), args: ['--agents', file, '--agent-env', 'COMMON=all', ...args], ...options });
	return { dir, file, server };
}

async function ask(t, server, id, prompt = 'where') {
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	const count = observer.events().filter(({ type }) => type === 'turn_end').length;
	await observer.prompt(prompt);
	await observer.waitUntil(() => observer.events().filter(({ type }) => type === 'turn_end').length > count, 'the end of the turn');
	const said = observer.events().filter(({ type }) => type === 'agent_message').at(-1)?.data.markdown;
	return prompt === 'where' ? JSON.parse(said) : said;
}

const make = async (server, json, options) => {
	const { status, body } = await server.request('POST', '/api/sessions', { json, ...options });
	return status === 201 ? body : [status, body.error.code];
};

test('a session has the agent and the directory that it was made with, also after a restart and a kill', async (t) => {
	const { dir, server } = await start(t);
	const feed = new TestSocket(t, server.ws('/api/events'), check.feed);
	await feed.waitFor('sessions');

	const other = await make(server, { id: 'other', agent: 'second', cwd: join(dir, 'one/api') });
	assertValid(check.rest('session')(other));
	assert.deepEqual([other.agent, other.cwd], ['second', join(dir, 'one/api')]);
	const told = await feed.waitFor((f) => f.type === 'session_created' && f.data.session.id === 'other');
	assert.deepEqual([told.data.session.agent, told.data.session.cwd], ['second', other.cwd]);
	const usual = await make(server, { id: 'usual' });
	assert.deepEqual([usual.agent, usual.cwd], ['first', join(dir, 'one')], 'the first agent, in its first root');
	assert.equal((await make(server, { agent: 'first', cwd: join(dir, 'one/link/') })).cwd, join(dir, 'one/app'), 'resolved');
	assert.equal((await make(server, { agent: 'demo' })).cwd, join(dir, 'two'), 'without roots: --cwd');

	const check_ = async () => {
		assert.deepEqual(await ask(t, server, 'other'), { cwd: other.cwd, mcpServers: [DB], in: other.cwd, name: 'second', common: 'all' });
		assert.deepEqual(await ask(t, server, 'usual'), { cwd: usual.cwd, mcpServers: [], in: usual.cwd, name: null, common: 'all' });
	};
	await check_();
	await server.kill9();
	await server.restart();
	await check_();
	await server.stop();
	await server.up();
	await check_();
	const again = (await server.request('GET', '/api/sessions/other')).body;
	assert.deepEqual([again.agent, again.cwd], [other.agent, other.cwd]);
});

test('a session keeps its agent when another one comes first, and says so when it is gone', async (t) => {
	const { dir, file, server } = await start(t);
	await make(server, { id: 's' });
	await server.stop();
	writeFileSync(file, JSON.stringify({ agents: agentsOf(dir).reverse() }));
	await server.up();
	assert.equal((await ask(t, server, 's')).in, join(dir, 'one'));
	await server.stop();
	writeFileSync(file, JSON.stringify({ agents: agentsOf(dir).slice(1) }));
	await server.up();
	const observer = await Observer.connect(t, server, 's');
	observer.send('prompt', { message: 'Hello', prompt_id: 'p' });
	const { data } = await observer.waitFor('error');
	assert.equal(data.code, 'no_agent');
	assert.match(data.message, /no longer in the --agents file/);
});

test('an agent that there is not, and a directory that is none or out of the roots, are refused', async (t) => {
	const { dir, server } = await start(t);
	const cases = [
		[{ agent: 'third' }, 'unknown_agent'],
		[{ agent: '' }, 'unknown_agent'],
		[{ agent: 7 }, 'bad_request'],
		[{ cwd: 'one' }, 'bad_directory'],
		[{ cwd: `/${'x'.repeat(5000)}` }, 'bad_directory'],
		[{ cwd: join(dir, 'one/nothing') }, 'bad_directory'],
		[{ cwd: join(dir, 'one/a-file') }, 'bad_directory'],
		[{ cwd: join(dir, 'two') }, 'bad_directory', 'the root of another agent'],
		[{ cwd: join(dir, 'one/away') }, 'bad_directory', 'a symlink out of the root'],
		[{ cwd: join(dir, 'one/away/secret') }, 'bad_directory'],
		[{ cwd: `${join(dir, 'one')}/../outside` }, 'bad_directory'],
		[{ cwd: `${join(dir, 'one')}-more` }, 'bad_directory'],
		[{ agent: 'second', cwd: join(dir, 'one') }, 'bad_directory', 'above its root'],
	];
	for (const [json, code, why] of cases) {
		assert.deepEqual(await make(server, json), [400, code], why ?? JSON.stringify(json).slice(0, 80));
	}
	assert.deepEqual((await server.request('GET', '/api/sessions')).body.sessions, []);

	const bare = await Server.start(t, { agent: null });
	assert.deepEqual((await bare.request('GET', '/api/agents')).body, { agents: [] });
	assert.deepEqual(await make(bare, { agent: 'first' }), [400, 'unknown_agent']);
	assert.deepEqual(await make(bare, { cwd: '/tmp' }), [400, 'bad_directory']);
});

test('agents and directories are listed for those who may make sessions, and no more than that', async (t) => {
	const { dir, server } = await start(t);
	const list = async (query, options) => {
		const { status, body } = await server.request('GET', `/api/directories?${new URLSearchParams(query)}`, options);
		if (status === 200) {
			assertValid(check.rest('directories')(body));
		}
		return status === 200 ? body.directories.map((path) => path.replace(`${dir}/`, '')) : [status, body.error.code];
	};
	const { body } = await server.request('GET', '/api/agents');
	assertValid(check.rest('agents')(body));
	assert.deepEqual(body.agents, [
		{ name: 'first', title: 'first', is_demo: false, roots: [join(dir, 'one')] },
		{ name: 'second', title: 'The second', is_demo: false, roots: [join(dir, 'two'), join(dir, 'one/api')] },
		{ name: 'demo', title: 'demo', is_demo: true, roots: [join(dir, 'two')] },
	]);

	assert.deepEqual(await list({}), ['one']);
	assert.deepEqual(await list({ agent: 'second' }), ['one/api', 'two']);
	assert.deepEqual(await list({ path: join(dir, 'one/') }), ['one/api', 'one/app'], 'no file, no link, nothing hidden');
	assert.deepEqual(await list({ path: join(dir, 'one/ap') }), ['one/api', 'one/app']);
	assert.deepEqual(await list({ path: join(dir, 'one/app') }), ['one/app']);
	assert.deepEqual(await list({ path: `${dir}/one/.` }), ['one/.git']);
	for (const path of ['outside/', 'one/away/', 'one/../outside/', 'two/', 'one/nothing/x']) {
		assert.deepEqual(await list({ path: `${dir}/${path}` }), [], path);
	}
	assert.deepEqual(await list({ path: 'one' }), []);
	assert.deepEqual(await list({ agent: 'third' }), [400, 'unknown_agent']);
	assert.deepEqual(await list({ path: '/', more: '1' }), [400, 'bad_request']);

	for (let i = 0; i < 250; i++) {
		mkdirSync(join(dir, `two/d${String(i).padStart(3, '0')}`));
	}
	const many = (await server.request('GET', `/api/directories?agent=second&path=${dir}/two/`)).body;
	assert.deepEqual([many.directories.length, many.directories[199], many.has_more], [200, join(dir, 'two/d199'), true]);
	mkdirSync(join(dir, 'two/files'));
	for (let i = 0; i < 20001; i++) {
		writeFileSync(join(dir, `two/files/${i}`), '');
	}
	const files = (await server.request('GET', `/api/directories?agent=second&path=${dir}/two/files/`)).body;
	assert.deepEqual(files, { directories: [], has_more: true }, 'not all names of the directory were looked at');

	const headers = bearer(ownToken(server, 'observer'));
	assert.deepEqual(await list({}, { headers }), [403, 'forbidden']);
	const seen = (await server.request('GET', '/api/agents', { headers })).body;
	assertValid(check.rest('agents')(seen));
	assert.deepEqual(seen.agents[0], { name: 'first', title: 'first', is_demo: false }, 'where they are is not for observers');
	const { status } = await server.request('GET', '/api/agents', { headers: bearer('wrong') });
	assert.equal(status, 401);
});

test('in the sandbox an agent writes its own directory alone', async (t) => {
	const landlock = await runToEnd(['serve', '--listen', '256.0.0.1:0', '--data', join(scratchDir(t), 'data'), '--cwd', scratchDir(t), '--sandbox']);
	if (!/Landlock \d/.test(landlock.stderr)) {
		t.skip('this kernel has no Landlock');
		return;
	}
	const tools = ['--sandbox-read', fileURLToPath(new URL('../support', import.meta.url)), '--sandbox-read', process.execPath];
	const { dir, server } = await start(t, { args: ['--sandbox', ...tools] });
	const { id } = await make(server, { cwd: join(dir, 'one/app') });
	assert.equal(await ask(t, server, id, `write ${dir}/one/app/new`), 'written');
	assert.equal(await ask(t, server, id, `write ${dir}/one/api/new`), 'EACCES', 'of the same root, but of another session');
	assert.equal(await ask(t, server, id, `write ${dir}/two/new`), 'EACCES');
});

test('a file that is wrong is refused, with what is wrong', async (t) => {
	const dir = makeDirs(t);
	const file = join(dir, 'agents.json');
	const refused = async (text, words) => {
		writeFileSync(file, typeof text === 'string' ? text : JSON.stringify(text));
		const { code, stderr } = await runToEnd(['check-config', '--data', join(dir, 'data'), '--agents', file]);
		assert.equal(code, 2, stderr);
		assert.match(stderr, words);
	};
	const one = (more) => ({ agents: [{ name: 'a', command: 'true', ...more }] });
	await refused('{', /--agents ".*": line 1/);
	await refused([], /it is not \{"agents"/);
	await refused({ agents: [] }, /it is not \{"agents"/);
	await refused({ agents: [], more: 1 }, /it is not \{"agents"/);
	await refused({ agents: ['a'] }, /agent 1: "name"/);
	await refused(one({ name: 'a b' }), /agent 1: "name"/);
	await refused({ agents: [one().agents[0], one().agents[0]] }, /two agents have the name "a"/);
	await refused(one({ command: ' ' }), /agent "a": "command" is missing/);
	await refused(one({ comand: 'x' }), /agent "a": unknown member "comand"/);
	await refused(one({ env: 'A=1' }), /"env" is not a list/);
	await refused(one({ env: ['=1'] }), /"env": "=1"/);
	await refused(one({ roots: [join(dir, 'nothing')] }), /"roots": ".*nothing" is not a directory/);
	await refused(one({ roots: [1] }), /"roots" has an item that is not a string/);
	await refused(one({ title: '' }), /"title" is not a string/);
	await refused(one({ mcp_servers: [{ name: 'x' }] }), /each of "mcp_servers"/);
	writeFileSync(file, JSON.stringify(one()));
	const both = await runToEnd(['check-config', '--agents', file, '--agent', 'true']);
	assert.match(both.stderr, /--agent and --agents exclude each other/);
	const none = await runToEnd(['check-config', '--agents', join(dir, 'no-file')]);
	assert.match(none.stderr, /--agents ".*no-file": No such file/);
	const empty = await runToEnd(['check-config', '--agent', '']);
	assert.deepEqual([empty.code, /--agent "": give a command/.test(empty.stderr)], [2, true], empty.stderr);
});

test('a command whose program is not there is told when the server starts, and in the list of agents', async (t) => {
	const dir = makeDirs(t);
	const file = join(dir, 'tool');
	writeFileSync(file, '', { mode: 0o644 });
	const commands = {
		missing: 'no-such-agent acp',
		none: `${file} acp`,
		directory: `${dir} acp`,
		there: 'node x.js',
		whole: `${process.execPath} x.js`,
		shell: 'exec no-such-agent',
		quoted: '"no-such-agent" acp',
		variable: 'A=1 no-such-agent',
	};
	const agents = Object.entries(commands).map(([name, command]) => ({ name, command, ...(name === 'there' && { env: [`PATH=${dir}/bin:${dir}/bin2`] }) }));
	mkdirSync(join(dir, 'bin2'));
	writeFileSync(join(dir, 'bin2/node'), '#!/bin/sh\n', { mode: 0o755 });
	const { server } = await start(t, { agents: () => agents });
	const { body } = await server.request('GET', '/api/agents');
	assertValid(check.rest('agents')(body));
	const faults = Object.fromEntries(body.agents.map(({ name, fault }) => [name, fault]).filter(([, fault]) => fault));
	assert.deepEqual(Object.keys(faults), ['missing', 'none', 'directory']);
	assert.match(faults.missing, /the program "no-such-agent" is not in the server's PATH: install it/);
	assert.match(faults.none, /tool is not an executable program/);
	assert.match(server.stderr, /the agent "missing" cannot be started: the program "no-such-agent" is not in the server's PATH/);
	const seen = (await server.request('GET', '/api/agents', { headers: bearer(ownToken(server, 'observer')) })).body;
	assert.deepEqual(seen.agents.filter(({ fault }) => fault), [], 'which programs there are is not for observers');
});

test('a program that is no agent: what it wrote is told', async (t) => {
	const { server } = await start(t, { agents: () => [{ name: 'a', command: 'echo Usage: tool KEY=$COMMON; echo more >&2' }], args: ['--agent-env', 'COMMON=all-secret'] });
	await make(server, { id: 's' });
	const observer = await Observer.connect(t, server, 's');
	await observer.loadAll();
	await observer.prompt('Hello');
	await observer.waitUntil(() => observer.events().some(({ type }) => type === 'turn_end'), 'the end');
	const { data } = observer.events().find(({ type }) => type === 'agent_stopped');
	assert.deepEqual([data.reason, data.detail], ['exit', 'exit status 0; it ended before it answered: check that its command speaks ACP on stdin and stdout']);
	assert.deepEqual(data.stderr.split('\n').sort(), ['Usage: tool KEY=***', 'more']);
});
