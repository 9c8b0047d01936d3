// --sandbox: what an agent and its commands change, while the server works there beside them, leads out of nowhere.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

/** Whether the kernel has Landlock; 69-sandbox asserts what is said without. */
async function hasLandlock(t) {
	const dir = scratchDir(t);
	mkdirSync(join(dir, 'cwd'));
	const { stderr } = await runToEnd(['serve', '--listen', '256.0.0.1:0', '--data', join(dir, 'data'), '--cwd', join(dir, 'cwd'), '--sandbox']);
	const has = /agents are in a sandbox \(Landlock \d+\)/.test(stderr);
	if (!has) {
		t.diagnostic('this kernel has no Landlock: nothing was tested');
	}
	return has;
}

/** An agent in Python; `turn` is what it does with a prompt, and has `ask(method, **params)` and `request`, the prompt's. */
const agentIn = (turn) => `import json, os, signal, sys, time
def put(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def get(): return json.loads(sys.stdin.readline() or sys.exit(0))
def ask(method, **params):
    put({"id": 7, "method": method, "params": params})
    return get()
def turn(request):
${turn.replace(/^/gm, '    ')}
    put({"id": request["id"], "result": {"stopReason": "end_turn"}})
while True:
    request = get()
    if request["method"] == "session/prompt": turn(request)
    elif request["method"] == "initialize": put({"id": request["id"], "result": {"protocolVersion": 1}})
    elif request["method"] == "session/new": put({"id": request["id"], "result": {"sessionId": "s"}})
`;

/** Exchanges the directory "a" for the link "b", and back, for as long as it lives; SIGTERM does not end it. */
const EXCHANGE = `import ctypes, os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.chdir(os.environ["TMPDIR"])
os.mkdir("a")
for i in range(int(sys.argv[2])): open("a/f%d" % i, "w").close()
os.symlink(sys.argv[1], "b")
libc = ctypes.CDLL(None)
open(sys.argv[3], "w").write(os.environ["TMPDIR"])
while True: libc.renameat2(-100, b"a", -100, b"b", 2)
`;

test('a command that goes on beside the removal of its TMPDIR cannot turn that elsewhere; however deep it is, it is gone', async (t) => {
	if (!(await hasLandlock(t))) {
		return;
	}
	const COUNT = 2000;
	const dir = scratchDir(t);
	const place = (name) => join(dir, name);
	['cwd', 'outside'].forEach((name) => mkdirSync(place(name)));
	for (let i = 0; i < COUNT; i++) {
		writeFileSync(place(`outside/f${i}`), '');
	}
	writeFileSync(place('cwd/exchange.py'), EXCHANGE);
	writeFileSync(place('cwd/agent.py'), agentIn(`
os.makedirs(os.environ["TMPDIR"] + "/deep" * 200)
ask("terminal/create", command="python3", args=["exchange.py", "${place('outside')}", "${COUNT}", "${place('cwd/tmp')}"])
while not os.path.exists("tmp") or not os.path.getsize("tmp"): time.sleep(0.01)
sys.exit(0)`));
	const server = await Server.start(t, { dataDir: place('data'), cwd: place('cwd'), agent: 'exec python3 agent.py', args: ['--sandbox'] });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	await observer.prompt('go');
	await observer.waitForEvent('agent_stopped');
	const tmp = readFileSync(place('cwd/tmp'), 'utf8');
	await server.stop();
	await eventually(() => !existsSync(dirname(tmp)), 'its removal');
	assert.equal(readdirSync(place('outside')).length, COUNT);
});
