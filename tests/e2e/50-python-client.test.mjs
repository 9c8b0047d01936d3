// The Python client: on the worst network, killed, and as its README says.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { HostileProxy } from '../support/hostile_proxy.mjs';
import { input, post } from '../support/producer.mjs';
import { randomNumbers } from '../support/recording.mjs';
import { Server, demoAgent, scratchDir } from '../support/server.mjs';
import { defer, within } from '../support/wait.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const source = join(root, 'clients/python/src');
// The system's Python has Debian's packages; another one may be first in PATH.
const python = ['/usr/bin/python3', 'python3'].find((one) => spawnSync(one, ['-c', 'import websockets']).status === 0);
const options = { skip: python ? false : 'there is no python3 with websockets' };

function run(t, server, args, { cwd } = {}) {
	const env = { ...process.env, PYTHONPATH: source, HOLDFAST_TOKEN: server.token, HOLDFAST_URL: server.url };
	const child = spawn(python, args, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
	defer(t, () => child.kill('SIGKILL'));
	child.output = '';
	child.errors = '';
	child.stdout.on('data', (d) => (child.output += d));
	child.stderr.on('data', (d) => (child.errors += d));
	child.done = within(once(child, 'close'), 120_000, () => `${args.join(' ')} to end; ${child.output.slice(-500)} ${child.errors}`);
	return child;
}

const program = join(root, 'tests/support/python_client.py');
const linesOf = (child) => child.output.trim().split('\n').map((line) => JSON.parse(line));

async function hostile(t, server, seed) {
	const random = randomNumbers(seed * 7919 + 17);
	random(2);
	const proxy = new HostileProxy(() => server.url, random, 4, { frame: seed % 6, part: seed % 4 });
	defer(t, () => proxy.close());
	return proxy.listen();
}

async function logOf(server, id) {
	const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=5000&format=markdown`);
	return body.events;
}

test('an observer on a hostile network ends with exactly the log', options, async (t) => {
	const server = await Server.start(t);
	let connections = 0;
	for (const seed of [1, 2, 3, 4, 5, 6]) {
		const { id } = await server.createSession();
		const child = run(t, server, [program, 'observe', await hostile(t, server, seed), id, '400']);
		for (let i = 0; i < 20; i += 1) {
			await post(server, id, Array.from({ length: 20 }, (_, n) => input.note({ i, n, text: 'ü'.repeat(200) })));
		}
		assert.deepEqual(await child.done, [0, null], child.errors);
		const items = linesOf(child);
		const { connects } = items.pop();
		assert.deepEqual(items, await logOf(server, id), `seed ${seed}`);
		connections += connects;
	}
	assert.ok(connections > 6, `the network was bad: ${connections} connections`);
});

test('an observer starts over when the server has another history', options, async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'same' });
	await post(server, 'same', [input.note({ i: 0 }), input.note({ i: 1 })]);
	const { body: { epoch } } = await server.request('GET', '/api/sessions/same');
	await server.request('DELETE', '/api/sessions/same');
	await server.createSession({ id: 'same' });
	await post(server, 'same', [input.note({ i: 7 }), input.note({ i: 8 }), input.note({ i: 9 })]);
	const script = `
import asyncio, os
from holdfast import Observer, Reset
async def main():
    observer = Observer(os.environ["HOLDFAST_URL"], "same", token=os.environ["HOLDFAST_TOKEN"], position=("${epoch}", 2))
    async for item in observer:
        print(item.reason if isinstance(item, Reset) else item["data"]["i"], flush=True)
        if observer.position[1] == 3:
            break
asyncio.run(main())`;
	const child = run(t, server, ['-c', script]);
	assert.deepEqual(await child.done, [0, null], child.errors);
	assert.equal(child.output, 'epoch\n7\n8\n9\n');
});

test('a producer on a hostile network, killed again and again, adds each event once and in order', options, async (t) => {
	const server = await Server.start(t);
	const dir = scratchDir(t);
	const { id } = await server.createSession();
	let next = 0;
	for (const seed of [1, 2, 3]) {
		const child = run(t, server, [program, 'produce', await hostile(t, server, seed), id, join(dir, 'outbox'), String(next), '100000']);
		const enough = new Promise((resolve) => child.stdout.on('data', () => child.output.split('\n').length > 200 && resolve()));
		await within(Promise.race([enough, child.done]), 60_000, () => `200 events; ${child.errors}`);
		child.kill('SIGKILL');
		await child.done;
		// What was said is in the outbox. One more may be: it was killed before it could say so.
		next = Number(child.output.slice(0, child.output.lastIndexOf('\n')).split('\n').at(-1)) + 1;
	}
	const last = run(t, server, [program, 'produce', await hostile(t, server, 4), id, join(dir, 'outbox'), String(next), String(next + 50)]);
	assert.deepEqual(await last.done, [0, null], last.errors);
	const found = [];
	for (let after = 0, more = true; more;) {
		const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=${after}&limit=5000`);
		found.push(...body.events.map(({ data }) => data.i));
		after = body.last_seq;
		more = body.has_more;
	}
	assert.deepEqual([...new Set(found)], Array.from({ length: next + 50 }, (_, i) => i), 'all of them, in order');
	assert.ok(found.length <= next + 50 + 3, 'each once, but for one that was put and not said at each kill');
});

test('prompts and answers on a hostile network: each is taken once, and has its receipt', options, async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	let connections = 0;
	for (const seed of [1, 2, 3, 4]) {
		const { id } = await server.createSession();
		const child = run(t, server, [program, 'take_part', await hostile(t, server, seed), id, '9']);
		assert.deepEqual(await child.done, [0, null], child.errors);
		const items = linesOf(child);
		const { connects, receipts, answers, open } = items.pop();
		const log = await logOf(server, id);
		assert.deepEqual(items, log, `seed ${seed}`);
		const prompts = log.filter(({ type }) => type === 'user_prompt').map(({ data }) => [data.prompt_id, data.client_id, data.name]);
		assert.deepEqual(prompts.sort(), Array.from({ length: 9 }, (_, i) => [`p-${i}`, 'python', 'Py']), 'each once, by whom');
		assert.deepEqual(receipts, Array.from({ length: 9 }, (_, i) => `p-${i}`));
		assert.deepEqual([answers, open], [['python', 'python', 'python'], 0]);
		connections += connects;
	}
	assert.ok(connections > 4, `the network was bad: ${connections} connections`);
});

test('a cancel stops the turn, and what is refused is raised', options, async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	await server.createSession({ id: 's' });
	const script = `
import asyncio, os
from holdfast import HoldfastError, Observer
def make():
    return Observer(os.environ["HOLDFAST_URL"], "s", token=os.environ["HOLDFAST_TOKEN"])
async def code_of(waits):
    try:
        await waits
    except HoldfastError as error:
        return error.code
async def main():
    observer, other = make(), make()
    print(await observer.cancel())
    first = asyncio.create_task(observer.prompt("permission"))
    watching = None
    refused = None
    async for event in observer:
        if event["type"] == "permission_request":
            print((await first).seq, [one["seq"] == event["seq"] for one in observer.permissions])
            print(await observer.cancel(turn=event["turn"]))
            request = event["data"]["request_id"]
        elif event["type"] == "turn_end":
            print(event["data"]["stop_reason"], observer.permissions)
            break
    late = asyncio.create_task(code_of(other.answer_permission(request, "allow")))
    empty = asyncio.create_task(code_of(other.prompt("x" * 600000)))
    async def watch():
        async for event in other:
            pass
    watching = asyncio.create_task(watch())
    print(await late, await empty)
    watching.cancel()
asyncio.run(main())`;
	const child = run(t, server, ['-c', script]);
	assert.deepEqual(await child.done, [0, null], child.errors);
	assert.equal(child.output, "False\n1 [True]\nTrue\ncancelled []\nalready_resolved too_large\n");
});

test('a refused event is raised, and does not stop those after it', options, async (t) => {
	const server = await Server.start(t);
	const script = `
import asyncio, os
from holdfast import HoldfastError, Outbox, OutboxFull, Producer
where = dict(outbox="box", token=os.environ["HOLDFAST_TOKEN"])
async def main():
    try:
        async with Producer(os.environ["HOLDFAST_URL"], "made", **where) as producer:
            await producer.send("no-such-type", {})
            await producer.send("x-note", {"i": 1})
    except HoldfastError as error:
        print(error.code, error.detail["event"]["type"])
    async with Producer(os.environ["HOLDFAST_URL"], "made", **where) as producer:
        pass
    box = Outbox("small", max_events=1)
    box.put({})
    try:
        box.put({})
    except OutboxFull:
        print("full")
asyncio.run(main())`;
	const child = run(t, server, ['-c', script], { cwd: scratchDir(t) });
	assert.deepEqual(await child.done, [0, null], child.errors);
	assert.equal(child.output, 'unknown_type no-such-type\nfull\n');
	assert.deepEqual((await logOf(server, 'made')).map(({ data }) => data), [{ i: 1 }]);
});

const REFUSED = `
import asyncio
from holdfast.participant import Participant

async def main():
    sent = []
    class Busy:
        async def send(self, kind, data):
            sent.append(data["prompt_id"])
            asyncio.get_running_loop().call_soon(participant.refused, {"request": "prompt", "prompt_id": data["prompt_id"], "code": "server_busy"})
    participant = Participant("c", 0.001)
    await participant.connected(Busy())
    asks = [asyncio.ensure_future(participant.ask("prompt %d" % i, "prompt", {"prompt_id": str(i)})) for i in range(4)]
    while len(sent) < 400:
        await asyncio.sleep(0)
    print(len(participant._timers), sent[:400] == ["0", "1", "2", "3"] * 100)

asyncio.run(main())
`;

test('prompts that are refused for a moment are all said again, in their order, once', options, async (t) => {
	const child = run(t, { token: '', url: '' }, ['-c', REFUSED]);
	await child.done;
	assert.match(child.output, /^[01] True\n$/, child.errors);
});

test('the README and the example do what they say', options, async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	const dir = scratchDir(t);
	const readme = readFileSync(join(root, 'clients/python/README.md'), 'utf8');
	const [watch, part, feed] = [...readme.matchAll(/^```python\n([\s\S]*?)^```$/gm)].map(([, code]) => code.replace('http://127.0.0.1:8080', server.url));
	writeFileSync(join(dir, 'feed.py'), feed);
	writeFileSync(join(dir, 'watch.py'), watch);
	const fed = run(t, server, ['feed.py'], { cwd: dir });
	assert.deepEqual(await fed.done, [0, null], fed.errors);
	const watched = run(t, server, ['watch.py'], { cwd: dir });
	assert.deepEqual(await watched.done, [0, null], watched.errors);
	assert.match(watched.output, /^1 agent_message Hello, \*\*world\*\*\.\n/);
	writeFileSync(join(dir, 'part.py'), part.replace('"demo"', '"part"'));
	await server.createSession({ id: 'part' });
	const taken = run(t, server, ['part.py'], { cwd: dir });
	assert.deepEqual(await taken.done, [0, null], taken.errors);
	assert.match(taken.output, /^permission_request\n[\s\S]*turn_end\nran as event \d+\n$/);
	const example = join(root, 'clients/python/examples/stream_model.py');
	assert.ok(readFileSync(example, 'utf8').split('\n').length <= 18);
	const streamed = run(t, server, [example, 'model'], { cwd: dir });
	assert.deepEqual(await streamed.done, [0, null], streamed.errors);
	assert.equal((await logOf(server, 'model'))[0].data.markdown.trim(), 'Here is **what** the model says.');
});

test('mypy --strict has nothing to say', { skip: spawnSync('mypy', ['--version']).status === 0 ? false : 'there is no mypy' }, (t) => {
	const { status, stdout } = spawnSync('mypy', ['--strict', '--cache-dir', scratchDir(t), 'src'], { cwd: join(root, 'clients/python'), encoding: 'utf8' });
	assert.equal(status, 0, stdout);
});
