// Thresholds and bounds that are set at the start, and what they mean for what is on disk already.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Producer } from '../support/producer.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';

const messages = (log) => log.filter((e) => e.type === 'agent_message').map((e) => e.data.markdown);
const say = (text) => ({ type: 'agent_message_chunk', data: { text } });

/** Complete lines of one fence, `size` bytes in all. */
const fenceLines = (size) => '0123456789abcde\n'.repeat(size / 16);

test('holdfast limits lists each limit with its default, range and code', async () => {
	const { code, stdout } = await runToEnd(['limits']);
	assert.equal(code, 0);
	const [heading, ...rows] = stdout.trim().split('\n');
	assert.match(heading, /^NAME +DEFAULT +RANGE +CODE +MEANING$/);
	assert.ok(rows.length > 20, stdout);
	assert.match(stdout, /^soft_flush_ms +200 ms +1 ms to 60000 ms +- +\S/m);
	assert.match(stdout, /^block_size +64K +256 to 16M +- +\S/m);
	assert.match(stdout, /^frame_size +1M +1K to 64M +too_large +\S/m);
	assert.ok(rows.every((row) => /^[a-z_]+ +\d+(K|M| ms)? +\d+(K|M| ms)? to \d+(K|M| ms)? +(-|[a-z_]+|\d{4}) +\S/.test(row)), stdout);
});

test('a wrong limit is refused with what to do', async (t) => {
	const data = join(scratchDir(t), 'data');
	for (const [limit, why] of [
		['soft_flush', /NAME=VALUE/], ['soft=1', /no such limit.*holdfast limits/], ['soft_flush_ms=', /milliseconds/],
		['soft_flush_ms=0', /from 1 to 60000/], ['block_size=1T', /bytes/], ['block_size=-5', /bytes/], ['block_size=99999999999999999999', /bytes/],
		['load_max=5s', /whole number/], ['load_max=10,block_size=1', /from 256 to/],
	]) {
		const { code, stderr } = await runToEnd(['serve', '--data', data, '--listen', '127.0.0.1:0', '--limit', limit]);
		assert.equal(code, 2, limit);
		assert.match(stderr, why, limit);
		const env = await runToEnd(['serve', '--data', data, '--listen', '127.0.0.1:0'], { env: { HOLDFAST_LIMIT: limit } });
		assert.match(env.stderr, why, limit);
	}
});

test('limits hold, and the command line wins over the environment', async (t) => {
	const server = await Server.start(t, {
		args: ['--limit', 'block_size=1K,prompt_size=2K', '--limit=load_max=2'],
		env: { HOLDFAST_LIMIT: 'block_size=512,title_size=20' },
	});
	const { id } = await server.createSession();
	const producer = await Producer.connect(t, server, id);
	await producer.append(say('```\n' + fenceLines(4096)), { type: 'turn_end', data: {} });
	const pieces = messages(readLog(server, id));
	assert.deepEqual(pieces.map((p) => p.length), [1024, 1024, 1024, 1024, 4]);
	assert.equal((await server.request('POST', '/api/sessions', { json: { title: 'x'.repeat(21) } })).status, 413);
	const page = await server.request('GET', `/api/sessions/${id}/events?after_seq=0`);
	assert.equal(page.body.events.length, 2, 'a page without a limit of its own is no larger than the largest');
	assert.equal((await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=3`)).status, 400);
});

test('a block is cut as it was, whatever the limits of the server that goes on with it', async (t) => {
	const dir = scratchDir(t);
	const dataDir = join(dir, 'data');
	const options = (size) => ({ dataDir, cwd: dir, args: ['--limit', `block_size=${size},idle_block_flush_ms=3600s`] });
	const first = await Server.start(t, options(1024));
	const { id } = await first.createSession();
	const text = '```\n' + fenceLines(2000 - (2000 % 16));
	await (await Producer.connect(t, first, id)).append(say(text));
	const before = readLog(first, id);
	assert.deepEqual(messages(before).map((m) => m.length), [1024]);
	await first.kill9();

	const second = await Server.start(t, options(4096));
	await (await Producer.connect(t, second, id)).append(say(fenceLines(4000)), { type: 'turn_end', data: {} });
	const log = readLog(second, id);
	assert.deepEqual(log.slice(0, before.length), before);
	const pieces = messages(log);
	assert.equal(pieces.join(''), text + fenceLines(4000));
	assert.deepEqual(pieces.map((m) => m.length), [1024, 4096, text.length + 4000 - 1024 - 4096]);
	assert.ok(log.every((e, i) => e.seq === i + 1));
});
