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

test('a session whose directory another agent has exchanged for a link reads and writes nothing there', async (t) => {
	if (!(await hasLandlock(t))) {
		return;
	}
	const dir = scratchDir(t);
	const place = (name) => join(dir, name);
	['work/mine', 'outside', 'readable'].forEach((name) => mkdirSync(place(name), { recursive: true }));
	writeFileSync(place('outside/secret'), 'secret');
	writeFileSync(place('readable/agent.py'), agentIn(`
words = request["params"]["prompt"][0]["text"]
if words == "exchange":
    os.rename("mine", "had")
    os.symlink("${place('outside')}", "mine")
else:
    method, file = words.split()
    answer = ask("fs/" + method, path="${place('work/mine')}/" + file, content="changed")
    put({"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": json.dumps(answer.get("error", answer.get("result")))}}}})`));
	writeFileSync(place('agents.json'), JSON.stringify({ agents: [{ name: 'a', command: `exec python3 ${place('readable/agent.py')}`, roots: [place('work')] }] }));
	const server = await Server.start(t, { dataDir: place('data'), args: ['--agents', place('agents.json'), '--sandbox', '--sandbox-read', place('readable')] });
	const open = async (cwd) => {
		const { id } = await server.createSession({ cwd });
		const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
		await observer.loadAll();
		return async (message) => {
			const { seq } = await observer.prompt(message);
			const end = await observer.waitForEvent('turn_end', { after: seq });
			assert.equal(end.data.stop_reason, 'end_turn');
			return observer.events().filter((e) => e.seq > seq).map((e) => e.data.markdown ?? '').join('');
		};
	};
	const mine = await open(place('work/mine'));
	const above = await open(place('work'));
	assert.match(await mine('write_text_file own'), /\{\}/);
	assert.match(await mine('read_text_file own'), /changed/);
	await above('exchange');
	assert.match(await mine('read_text_file secret'), /in the place of the session's directory/);
	assert.match(await mine('write_text_file new'), /in the place of the session's directory/);
	assert.deepEqual(readdirSync(place('outside')), ['secret']);
});
