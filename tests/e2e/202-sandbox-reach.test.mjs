// --sandbox, beyond files: an agent reaches neither the server, nor its spawner and guards, nor another agent by their process ids, nor what is no file; and
// the programs that agents use run all the same. As root, and as another user.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Observer } from '../support/observer.mjs';
import { landlock } from '../support/sandbox.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';

const CASES = fileURLToPath(new URL('../unit/acp_agent_cases.sh', import.meta.url));
const NOBODY = 65534;
const CHROMIUM = ['/usr/lib/chromium/chromium-headless-shell', '/usr/lib/chromium/chromium'].find(existsSync);
const isRoot = process.getuid() === 0;

/** What each target, and what there is without one, is tried with; true: it succeeded. */
const PROBE = `import ctypes, json, os, resource, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
IOPRIO_SET = {'x86_64': 251, 'aarch64': 30}[os.uname().machine]
KEYCTL = {'x86_64': 250, 'aarch64': 219}[os.uname().machine]
def call(name, *args):
    if getattr(libc, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), name)
def write(path):
    with open(path, 'w') as file:
        file.write('500')
def apart(what):
    pid = os.fork()
    if pid == 0:
        try:
            what()
            os._exit(0)
        except BaseException:
            os._exit(1)
    if os.waitpid(pid, 0)[1]:
        raise OSError
def reconnect():
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    pair[0].connect(sys.argv[3])
def limit(pid, which):
    resource.prlimit(pid, which, (0, resource.prlimit(pid, which)[1]))
of_process = {
    'cpu': lambda pid: limit(pid, resource.RLIMIT_CPU), 'nofile': lambda pid: limit(pid, resource.RLIMIT_NOFILE),
    'fsize': lambda pid: limit(pid, resource.RLIMIT_FSIZE), 'as': lambda pid: limit(pid, resource.RLIMIT_AS),
    'affinity': lambda pid: os.sched_setaffinity(pid, {0}), 'nice': lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 19),
    'group': lambda pid: os.setpriority(os.PRIO_PGRP, os.getpgid(pid), 19),
    'policy': lambda pid: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)), 'io': lambda pid: call('syscall', IOPRIO_SET, 1, pid, 3 << 13),
    'oom': lambda pid: write(f'/proc/{pid}/oom_score_adj'), 'memory': lambda pid: open(f'/proc/{pid}/mem', 'rb').close(), 'root': lambda pid: os.listdir(f'/proc/{pid}/root'),
}
of_all = {
    'keyring': lambda: call('syscall', KEYCTL, 0, -4, 0, 0, 0), 'shm': lambda: call('shmget', 0, 4096, 0o1600), 'sem': lambda: call('semget', 0, 1, 0o1600),
    'msg': lambda: call('msgget', 0, 0o1600), 'mq': lambda: call('mq_open', b'/holdfast-test', 0o102, 0o600, None), 'user': lambda: os.setpriority(os.PRIO_USER, 0, 19),
    'namespace': lambda: apart(lambda: call('unshare', 0x10000000)), 'reconnect': reconnect,
}
of_own = {
    'limits': lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)), 'affinity': lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)), 'nice': lambda: os.nice(0),
    'thread': lambda: __import__('threading').Thread(target=print).start(), 'pidfd': lambda: os.pidfd_open(os.getpid()),
}
def tried(what, *args):
    try:
        what(*args)
        return True
    except OSError:
        return False
found = {'own': [name for name in of_own if not tried(of_own[name])], 'all': [name for name in of_all if tried(of_all[name])]}
for name, pid in json.load(open(sys.argv[1])).items():
    found[name] = [each for each in of_process if tried(of_process[each], pid)]
json.dump(found, open(sys.argv[2], 'w'))
`;

/** A server in a directory of `user`'s own, whose agents do `script` and then what the file `requests` says. */
async function start(t, { user = process.getuid(), args = [], script = '' }) {
	const dir = scratchDir(t);
	const cwd = join(dir, 'cwd');
	mkdirSync(cwd);
	[dir, cwd].forEach((each) => chownSync(each, user, user));
	const prefix = user === process.getuid() ? [] : ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups'];
	const server = await Server.start(t, { dataDir: join(dir, 'data'), cwd, prefix, env: { HOME: cwd }, args: ['--sandbox', '--sandbox-read', dirname(CASES), ...args],
		agent: `${script ? `${script}; ` : ''}exec /bin/sh ${CASES} terminal` });
	writeFileSync(join(cwd, 'requests'), '');
	return { server, cwd, dir };
}

async function prompt(t, server) {
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	await observer.prompt('go');
	await observer.waitForEvent('turn_end');
	return observer;
}

const childrenOf = (pid) => readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
const namesOf = { spawner: (line) => line.includes('agent-spawner'), files: (line) => line.includes('agent-files') };

/** The processes of a server with an agent that runs: {server, spawner, files, guard, agent}. */
function targetsOf(server) {
	const [spawner] = childrenOf(server.pid);
	const targets = { server: server.pid, spawner };
	for (const child of childrenOf(spawner)) {
		const line = readFileSync(`/proc/${child}/cmdline`, 'latin1').replaceAll('\0', ' ');
		if (namesOf.files(line)) {
			targets.files = child;
		} else if (childrenOf(child).length) {
			Object.assign(targets, { guard: child, agent: childrenOf(child)[0] });
		}
	}
	return targets;
}

/** What is set for a process: limits, priority, policy, processors. */
const stateOf = (pid) => [readFileSync(`/proc/${pid}/limits`, 'utf8'), readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8'),
	/^Cpus_allowed:.*$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[0], readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ').slice(15, 17).join(' ')].join('\n');

const users = isRoot ? [['root', 0], ['another user', NOBODY]] : [['this user', process.getuid()]];
const probes = [...users.map(([name, user]) => [name, { user }, []]), ...users.slice(-1).map(([name, user]) => [`${name}, with user namespaces`, { user, args: ['--sandbox-user-namespaces'] }, ['namespace']])];
for (const [name, options, wanted] of probes) {
	test(`as ${name}: nothing that an agent does to the number of a process has an effect, and it reaches nothing that is no file`, async (t) => {
		if (!(await landlock(t))) {
			return;
		}
		const { server, cwd, dir } = await start(t, { ...options, script: '[ ! -f targets ] || python3 probe.py targets found.agent socket' });
		writeFileSync(join(cwd, 'probe.py'), PROBE);
		writeFileSync(join(cwd, 'requests'), `${JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'fs/read_text_file', params: { path: join(cwd, 'probe.py') } })}\n`);
		await prompt(t, server); // the other agent, and the helper for files
		const targets = targetsOf(server);
		assert.deepEqual(Object.keys(targets).sort(), ['agent', 'files', 'guard', 'server', 'spawner'], JSON.stringify(targets));
		const before = Object.fromEntries(Object.entries(targets).map(([each, pid]) => [each, stateOf(pid)]));
		const listener = spawnSync('python3', ['-c', `import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).bind(${JSON.stringify(join(dir, 'socket'))})`]);
		assert.equal(listener.status, 0, String(listener.stderr));
		writeFileSync(join(cwd, 'targets'), JSON.stringify(targets));
		writeFileSync(join(cwd, 'requests'), [
			JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'terminal/create', params: { command: `python3 probe.py targets found.command ${join(dir, 'socket')}` } }),
			JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'terminal/wait_for_exit', params: { terminalId: '@' } }), '',
		].join('\n'));
		await prompt(t, server);
		for (const who of ['agent', 'command']) {
			const found = JSON.parse(readFileSync(join(cwd, `found.${who}`), 'utf8'));
			assert.deepEqual(found, { own: [], all: wanted, ...Object.fromEntries(Object.keys(targets).map((each) => [each, []])) }, who);
		}
		const after = Object.fromEntries(Object.entries(targets).map(([each, pid]) => [each, stateOf(pid)]));
		assert.deepEqual(after, before);
		assert.equal((await server.request('GET', '/healthz')).status, 200);
	});
}

/** Runs a command of an agent to its end; gives its output. */
async function runCommand(t, options, command) {
	const { server, cwd } = await start(t, { user: isRoot ? NOBODY : process.getuid(), ...options });
	writeFileSync(join(cwd, 'requests'), [
		JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'terminal/create', params: { command } }),
		JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'terminal/wait_for_exit', params: { terminalId: '@' } }), '',
	].join('\n'));
	const observer = await prompt(t, server);
	return observer.events().map((e) => (e.type === 'x-acp-terminal' && e.data.output) || '').join('');
}

const PAGE = '<p id=x></p><script>x.textContent = 6 * 7 + " calculated"</script>';
const browse = (...flags) => `printf '%s' '${PAGE}' >page.html; ${CHROMIUM} --disable-gpu --headless ${flags.join(' ')} --user-data-dir="$PWD/profile" --dump-dom "file://$PWD/page.html" 2>log; echo $?; tail -n 3 log`;

test('git, npm, node and what sets its own limits run in the sandbox', async (t) => {
	if (!(await landlock(t))) {
		return;
	}
	const said = await runCommand(t, {}, `set -e; export npm_config_cache="$PWD/.npm" npm_config_update_notifier=false
		git init -q a; cd a; echo '{"name": "a", "version": "1.0.0", "scripts": {"test": "node --test"}}' >package.json
		echo 'require("node:test")("a", () => new Promise((done) => require("node:child_process").execFile("true", done)))' >a.test.js
		git add .; git -c user.name=n -c user.email=e commit -qm first; git gc -q; cd ..; git clone -q a b; cd b; git log --format='said %s'
		if command -v npm >&2; then npm test; else node --test; fi | grep -E '^# pass'
		nice -n 1 true; ionice -c 3 true; taskset -c 0 true; prlimit --nofile=100 true; timeout 5 true; (ulimit -n 50); setsid -w true; python3 -c 'import subprocess; subprocess.run(["true"])'; echo all of it`);
	assert.match(said, /said first/);
	assert.match(said, /# pass 1/);
	assert.match(said, /all of it/);
});

test('Chromium runs without its own sandbox, and with it where user namespaces are allowed', async (t) => {
	if (!CHROMIUM || !(await landlock(t))) {
		return;
	}
	assert.match(await runCommand(t, {}, browse('--no-sandbox')), /42 calculated/);
	assert.match(await runCommand(t, {}, browse()), /No usable sandbox/);
	assert.match(await runCommand(t, { args: ['--sandbox-user-namespaces'] }, browse()), /42 calculated/);
});

test('user namespaces are refused to a server that runs as root, and need --sandbox', async (t) => {
	const dir = scratchDir(t);
	mkdirSync(join(dir, 'cwd'));
	const serve = (...args) => runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', join(dir, 'data'), '--cwd', join(dir, 'cwd'), '--sandbox-user-namespaces', ...args]);
	assert.match((await serve()).stderr, /--sandbox-user-namespaces need --sandbox/);
	if (isRoot && (await landlock(t))) {
		const { code, stderr } = await serve('--sandbox');
		assert.notEqual(code, 0);
		assert.match(stderr, /because the server runs as root/);
	}
});

test('without the sandbox an agent can do all that', async (t) => {
	const dir = scratchDir(t);
	writeFileSync(join(dir, 'probe.py'), PROBE);
	writeFileSync(join(dir, 'requests'), '');
	const target = spawnSync('sh', ['-c', `sleep 60 >/dev/null 2>&1 & echo '{"other": '$!'}' >${dir}/targets; python3 ${dir}/probe.py ${dir}/targets ${dir}/found ${dir}/socket; kill $!`]);
	assert.equal(target.status, 0, String(target.stderr));
	const found = JSON.parse(readFileSync(join(dir, 'found'), 'utf8'));
	for (const each of ['cpu', 'nofile', 'fsize', 'as', 'affinity', 'nice', 'policy', 'io', 'oom']) {
		assert.ok(found.other.includes(each), `the probe does ${each}: ${JSON.stringify(found)}`);
	}
	assert.ok(['keyring', 'shm', 'sem', 'msg', 'mq', 'user', 'namespace'].every((each) => found.all.includes(each)), JSON.stringify(found));
});
