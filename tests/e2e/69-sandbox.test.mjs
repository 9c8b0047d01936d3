// --sandbox: agents and their commands reach the files that they are granted and no others, and can work there.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Observer } from '../support/observer.mjs';
import { landlock } from '../support/sandbox.mjs';
import { Server, binary, demoAgent, runToEnd, scratchDir } from '../support/server.mjs';
import { defer, eventually } from '../support/wait.mjs';

const CASES = fileURLToPath(new URL('../unit/acp_agent_cases.sh', import.meta.url));

/** Each line tries something, and is reported as `NAME yes` or `NAME no`. */
const PROBES = `
try token       cat "$DATA/access-token"
try data        ls "$DATA"
try link        cat ./to-token
try hard_link   ln "$DATA/access-token" ./hard
try outside     sh -c 'echo x >"$OUTSIDE/new"'
try change      sh -c 'echo x >>"$OUTSIDE/victim"'
try truncate    truncate -s 0 "$OUTSIDE/victim"
try truncate_ro python3 -c 'import os; os.open("$READABLE/file", os.O_RDONLY | os.O_TRUNC)'
try remove      rm -f "$OUTSIDE/victim"
try read_ro     cat "$READABLE/file"
try write_ro    sh -c 'echo x >"$READABLE/new"'
try write_rw    sh -c 'echo x >"$WRITABLE/new"'
try shadow      cat /etc/shadow
try tmp         sh -c 'echo x >/tmp/holdfast-sandbox-test'
try environ     cat "/proc/$SERVER/environ"
try descriptors readlink "/proc/$SERVER/fd/2"
try signal      kill -0 "$SERVER"
try mount       unshare --map-root-user --mount mount -t tmpfs tmpfs .
try socket      node -e 'require("net").connect(process.env.OUTSIDE + "/socket").on("connect", () => process.exit(0)).on("error", () => process.exit(1))'
try passwd      cat /etc/passwd
try null        sh -c 'echo x >/dev/null && head -c 1 /dev/urandom'
try own_tmp     sh -c 'echo x >"$TMPDIR/x" && mkdir -p "$TMPDIR/deep" && mv "$TMPDIR/x" "$TMPDIR/deep"'
try own_files   sh -c 'mkdir -p d/e && echo x >d/x && mv d/x d/e/y && ln d/e/y z && rm z && truncate -s 0 d/e/y'
try git         sh -c 'git init -q "repo.$$" && cd "repo.$$" && echo x >f && git add f && git -c user.name=n -c user.email=e commit -qm m && git log'
try node        node -e 'require("child_process").execFileSync("node", ["-e", "require(String.raw\`fs\`).writeFileSync(String.raw\`made\`, String.raw\`x\`)"])'
try no_new      grep -q 'NoNewPrivs:.1' /proc/self/status
try no_caps     grep -q 'CapEff:.0000000000000000' /proc/self/status
`;
const NEVER = ['token', 'data', 'link', 'hard_link', 'outside', 'change', 'truncate', 'truncate_ro', 'remove', 'write_ro', 'shadow', 'tmp', 'environ', 'descriptors', 'mount'];
const ALWAYS = ['read_ro', 'write_rw', 'passwd', 'null', 'own_tmp', 'own_files', 'git', 'node', 'no_new', 'no_caps'];

async function start(t, { args = [], ...options } = {}) {
	const dir = scratchDir(t);
	const place = (name) => join(dir, name);
	['cwd', 'outside', 'readable', 'writable'].forEach((name) => mkdirSync(place(name)));
	writeFileSync(place('outside/victim'), 'unharmed\n');
	writeFileSync(place('readable/file'), 'to be read\n');
	symlinkSync(place('data/access-token'), place('cwd/to-token'));
	const granted = ['--sandbox', '--sandbox-read', place('readable'), '--sandbox-write', place('writable'), '--sandbox-read', dirname(CASES)];
	const server = await Server.start(t, { dataDir: place('data'), cwd: place('cwd'), args: [...granted, ...args], ...options });
	return { place, server };
}

async function prompt(t, server) {
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	await observer.prompt('go');
	return observer;
}

/** What an agent and a command of it can do: {agent: {name: 'yes'}, command: …}. */
async function probe(t, options) {
	const cases = `exec /bin/sh ${CASES} terminal`;
	const run = await start(t, { agent: `/bin/sh ./probe.sh agent; ${cases}`, ...options });
	const { place, server } = run;
	const listener = createServer().listen(place('outside/socket'));
	defer(t, () => listener.close());
	writeFileSync(place('cwd/probe.sh'), `exec 3>"found.$1"
export DATA='${place('data')}' OUTSIDE='${place('outside')}' READABLE='${place('readable')}' WRITABLE='${place('writable')}' SERVER=${server.pid}
try() { name=$1; shift; if [ "$1" = git ] && ! command -v git; then echo "$name yes"; elif "$@" 3>&-; then echo "$name yes" >&3; else echo "$name no" >&3; fi; }
tmp=$TMPDIR
echo "TMPDIR $tmp" >&3
{ ${PROBES} } >"log.$1" 2>&1 </dev/null
`.replaceAll('"$READABLE/file", os', `"${place('readable')}/file", os`));
	writeFileSync(place('cwd/requests'), [
		JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'terminal/create', params: { command: '/bin/sh ./probe.sh command; echo over' } }),
		JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'terminal/wait_for_exit', params: { terminalId: '@' } }), '',
	].join('\n'));
	const observer = await prompt(t, server);
	await observer.waitForEvent('turn_end');
	const read = (name) => Object.fromEntries(readFileSync(place(`cwd/found.${name}`), 'utf8').trim().split('\n').map((line) => line.split(' ')));
	return { ...run, found: { agent: read('agent'), command: read('command') }, log: (name) => readFileSync(place(`cwd/log.${name}`), 'utf8') };
}

const named = (found, answer) => Object.keys(found).filter((name) => found[name] === answer).sort();

test('an agent in the sandbox, and its commands, can work in their directory and reach nothing else', async (t) => {
	const version = await landlock(t);
	if (!version) {
		return;
	}
	const { found, place, server, log } = await probe(t);
	for (const who of ['agent', 'command']) {
		const { TMPDIR, signal, ...rest } = found[who];
		assert.deepEqual(named(rest, 'no'), [...NEVER, 'socket'].sort(), `${who}: ${log(who)}`);
		assert.deepEqual(named(rest, 'yes'), [...ALWAYS].sort(), `${who}: ${log(who)}`);
		assert.equal(signal, version >= 6 ? 'no' : 'yes', who);
	}
	assert.equal(found.agent.TMPDIR, found.command.TMPDIR, 'they share one');
	assert.equal(readFileSync(place('outside/victim'), 'utf8'), 'unharmed\n');
	assert.equal(readFileSync(place('readable/file'), 'utf8'), 'to be read\n');
	assert.ok(existsSync(found.agent.TMPDIR));
	await server.stop();
	assert.ok(!existsSync(dirname(found.agent.TMPDIR)), 'what was temporary is gone with the server');
});

/** What a command with these variables says, in a sandbox with what else is there. */
async function runCommand(t, command, env) {
	const run = await start(t, { agent: `exec /bin/sh ${CASES} terminal` });
	const { place, server } = run;
	const variables = Object.entries(env(place)).map(([name, value]) => ({ name, value }));
	symlinkSync(place('data/access-token'), place('cwd/.gitconfig'));
	writeFileSync(place('cwd/requests'), [
		JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'terminal/create', params: { command, env: variables } }),
		JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'terminal/wait_for_exit', params: { terminalId: '@' } }), '',
	].join('\n'));
	const observer = await prompt(t, server);
	await observer.waitForEvent('turn_end');
	return { ...run, said: observer.events().map((e) => (e.type === 'x-acp-terminal' && e.data.output) || '').join('') };
}

test('the variables of a command are its own: what is loaded before it is in the sandbox is not theirs to choose', async (t) => {
	if (await landlock(t)) {
		const { place, said } = await runCommand(t, 'echo "$LD_DEBUG begun"', (at) => ({ LD_DEBUG: 'libs', LD_DEBUG_OUTPUT: at('outside/debug') }));
		assert.match(said, /libs begun/);
		assert.deepEqual(readdirSync(place('outside')), ['victim']);
	}
});

test('neither HOME nor a link in it grants a command more', async (t) => {
	if (await landlock(t)) {
		const { said } = await runCommand(t, 'cat .gitconfig; cd; pwd', (at) => ({ HOME: at('cwd') }));
		assert.match(said, /gitconfig: Permission denied/);
		assert.match(said, /\/cwd\n/);
	}
});

test('a server in whose home an agent has put a link grants nothing by it', async (t) => {
	if (await landlock(t)) {
		const dir = scratchDir(t);
		mkdirSync(join(dir, 'cwd'));
		const server = await Server.start(t, {
			dataDir: join(dir, 'data'), cwd: join(dir, 'cwd'), env: { HOME: join(dir, 'cwd') },
			args: ['--sandbox', '--sandbox-read', dirname(CASES)],
			agent: `(ln -s ${join(dir, 'data/access-token')} .gitconfig; cat .gitconfig) >>found 2>&1; exec /bin/sh ${CASES} terminal`,
		});
		writeFileSync(join(dir, 'cwd/requests'), [
			JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'terminal/create', params: { command: 'cat .gitconfig >>found 2>&1' } }),
			JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'terminal/wait_for_exit', params: { terminalId: '@' } }), '',
		].join('\n'));
		const observer = await prompt(t, server);
		await observer.waitForEvent('turn_end');
		const lines = readFileSync(join(dir, 'cwd/found'), 'utf8').trim().split('\n');
		assert.equal(lines.length, 2);
		lines.forEach((line) => assert.match(line, /gitconfig: Permission denied/));
	}
});

test('--sandbox-sockets lets agents connect to Unix sockets', async (t) => {
	if (await landlock(t)) {
		const { found } = await probe(t, { args: ['--sandbox-sockets'] });
		assert.deepEqual([found.agent.socket, found.command.socket, found.agent.token], ['yes', 'yes', 'no']);
	}
});

test('a TMPDIR is gone with its agent, also if the server is killed', async (t) => {
	if (await landlock(t)) {
		const { server, found } = await probe(t);
		assert.deepEqual(readdirSync(found.agent.TMPDIR), ['deep']);
		await server.kill9();
		await eventually(() => !existsSync(found.agent.TMPDIR), 'its removal');
	}
});

test('an agent that the sandbox hides is told of', async (t) => {
	if (await landlock(t)) {
		const { server } = await start(t, { agent: demoAgent() });
		const observer = await prompt(t, server);
		const { data } = await observer.waitForEvent('agent_stopped');
		assert.equal(data.reason, 'exit');
		assert.match(data.detail, /^exit status 126; in the sandbox it can run only what is below \/usr, its directory and --sandbox-read/);
	}
});

test('a sandbox that would not hold is refused', async (t) => {
	if (!(await landlock(t))) {
		return;
	}
	const dir = scratchDir(t);
	const place = (name) => join(dir, name);
	['cwd', 'more', 'web', 'data/workspace'].forEach((name) => mkdirSync(place(name), { recursive: true }));
	writeFileSync(place('more/secret'), 'x'.repeat(40));
	symlinkSync(place('more'), place('cwd/link'));
	const refused = async (why, args) => {
		const { code, stderr } = await runToEnd(['serve', '--listen', '127.0.0.1:0', '--cwd', place('cwd'), '--data', place('data'), ...args]);
		assert.ok(code > 0, args.join(' '));
		assert.match(stderr, why, args.join(' '));
	};
	await refused(/would not keep agents from \S+\/data, because they are granted \S+/, ['--sandbox', '--cwd', dir]);
	await refused(/would not keep agents from \S+\/cwd\/sub\/data/, ['--sandbox', '--data', place('cwd/sub/data')]);
	await refused(/would not keep agents from \S+\/data/, ['--sandbox', '--sandbox-read', place('data')]);
	await refused(/would not keep agents from \S+\/data/, ['--sandbox', '--sandbox-read', dir]);
	await refused(/would not keep agents from \S+\/more\/data/, ['--sandbox', '--data', place('cwd/link/data'), '--sandbox-write', place('more')]);
	await refused(/would not keep agents from \S+\/more\/secret/, ['--sandbox', '--sandbox-read', place('more'), '--auth-secret', place('more/secret')]);
	await refused(/would not keep agents from \S+\/more\/secret/, ['--sandbox', '--sandbox-read', place('more'), '--tls-key', place('more/secret'), '--tls-cert', place('more/secret')]);
	await refused(/could change \S+\/web, which the server itself uses/, ['--sandbox', '--sandbox-write', place('web'), '--web', place('web')]);
	await refused(/could change \S+\/web, which the server itself uses/, ['--sandbox', '--sandbox-write', place('web'), '--tls-cert', place('web'), '--tls-key', place('more/secret')]);
	await refused(/could change \S+\/holdfast, which the server itself uses/, ['--sandbox', '--sandbox-write', dirname(binary())]);
	await refused(/would let agents connect to unix:/, ['--sandbox', '--sandbox-sockets', '--listen', `unix:${place('s')}`]);
	await refused(/need --sandbox/, ['--sandbox-read', place('more')]);
	await refused(/--sandbox-read ".*nowhere": there is no such file or directory/, ['--sandbox', '--sandbox-read', place('nowhere')]);
	const server = await Server.start(t, { dataDir: place('data'), cwd: place('data/workspace'), args: ['--sandbox'] });
	await server.stop();
});
