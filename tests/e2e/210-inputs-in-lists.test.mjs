// What arrives behind a blank line of a list: it goes out at once, and the list goes on behind it in its context, at every door.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { Server, runToEnd } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

/** No timer cuts anything. */
const STILL = ['soft_flush_ms=60000', 'hold_ms=600000', 'idle_flush_ms=3600000', 'idle_block_flush_ms=3600000', 'thought_flush_ms=60000']
	.flatMap((limit) => ['--limit', limit]);

const KINDS = {
	tool_call: input.tool('call'),
	tool_call_update: { type: 'tool_call_update', data: { tool_call_id: 'call', status: 'in_progress' } },
	plan: input.plan('Look'),
	usage: { type: 'usage', data: { mode: 'cumulative', used: 7, size: 100 } },
	file_read: { type: 'file_read', data: { path: '/a', size: 1 } },
	file_write: { type: 'file_write', data: { path: '/a', size: 1 } },
	'x-acp-terminal': { type: 'x-acp-terminal', data: { terminal_id: 't', status: 'running', output: 'x', offset: 0 } },
	agent_thought: input.thought('hm'),
};

/** [in front of the input, behind it, and the HTML of the event behind it] */
const LISTS = {
	'a nested list': ['* Files:\n\n', '    * a.c\n    * b.c\n\nend\n', /^<ul>\n<li>\n<p> <\/p>\n<ul>\n<li>a\.c<\/li>\n<li>b\.c<\/li>\n<\/ul>\n<\/li>\n<\/ul>\n$/],
	'a fence': ['1. Run:\n\n', '   ```sh\n   ls\n   ```\n\n', /<pre><code class="language-sh">ls\n<\/code><\/pre>/],
	'a quote': ['- a\n\n', '  > b\n\n', /<li>\n<p> <\/p>\n<blockquote>\n<p>b<\/p>/],
	'the next number': ['1. a\n1. b\n\n', '1. c\n', /^<ol start="3">\n<li>c<\/li>\n<\/ol>\n$/],
	'a number in an item': ['1. a\n   1. x\n\n', '   1. y\n', /<ol start="2">\n<li>y<\/li>/],
};

async function start(t) {
	const server = await Server.start(t, { args: STILL });
	return server;
}

async function eventsOf(server, id, query = 'format=both') {
	const { body } = await server.request('GET', `/api/sessions/${id}/events?limit=5000&${query}`);
	return body.events;
}

test('every kind of input goes out at once, and the list goes on behind it', async (t) => {
	const server = await start(t);
	for (const [kind, between] of Object.entries(KINDS)) {
		for (const [what, [before, after, html]] of Object.entries(LISTS)) {
			const { id } = await server.createSession();
			const observer = await Observer.connect(t, server, id, { query: { format: 'both' } });
			const producer = await Producer.connect(t, server, id);
			await observer.load();
			await producer.append(input.text(before));
			await producer.append(between);
			if (kind !== 'agent_thought') { // which waits for more of itself
				await observer.waitUntil(() => observer.last === 2, `${kind} between ${what} to come`);
			}
			await producer.append(input.text(after), input.end());
			await observer.waitUntil(() => observer.events().at(-1)?.type === 'turn_end', 'the end of the turn');
			const [first, second, third] = observer.events();
			assert.deepEqual([first.type, second.type, third.type], ['agent_message', kind, 'agent_message'], what);
			assert.match(third.data.html, html, `${kind}, ${what}`);
			assert.equal(third.data.continues, first.seq);
			const markdown = observer.events().map(({ data }) => data.markdown ?? '').join('');
			assert.equal(markdown.trimEnd(), (before + after).trimEnd());
			assert.deepEqual(await eventsOf(server, id), observer.events());
			observer.finish();
			producer.finish();
		}
	}
});

test('what does not go on with the list is a block of its own', async (t) => {
	const server = await start(t);
	for (const [i, after] of ['text\n', '* b\n', '# b\n', '```\nb\n```\n', '1. b\n', '| a |\n|---|\n'].entries()) {
		const id = `s-${i}`;
		await server.createSession({ id });
		await post(server, id, [input.text('- a\n\n'), KINDS.tool_call, input.text(after), input.end()]);
		const [, , third] = await eventsOf(server, id);
		assert.equal(third.data.markdown, after);
		assert.ok(!('continues' in third.data) && !('context' in third.data) && !('start' in third.data), after);
	}
	for (const [id, ...between] of [['message', KINDS.tool_call], ['turn', KINDS.tool_call, input.end()], ['prompt', { type: 'user_prompt', data: { message: 'More' } }]]) {
		await server.createSession({ id });
		await post(server, id, [input.text('1. a\n\n', 'm-1'), ...between, input.text('1. b\n', id === 'message' ? 'm-2' : 'm-1'), input.end()]);
		const last = (await eventsOf(server, id)).findLast(({ type }) => type === 'agent_message');
		assert.deepEqual([last.data.html, last.data.continues], ['<ol>\n<li>b</li>\n</ol>\n', undefined], id);
	}
});

test('the list goes on after a pause, kill -9, a stop and more inputs', async (t) => {
	const server = await Server.start(t, { args: [...STILL, '--limit', 'soft_flush_ms=20'] });
	const { id } = await server.createSession();
	const out = (seq) => eventually(async () => (await server.request('GET', `/api/sessions/${id}`)).body.max_seq >= seq, `event ${seq}`);
	await post(server, id, input.text('1. a\n   - x\n\n'));
	await out(1);
	await post(server, id, [KINDS.tool_call, KINDS.plan]);
	await server.kill9();
	await server.restart();
	await post(server, id, KINDS.tool_call_update);
	await post(server, id, input.text('   - y\n\n'));
	await out(5);
	await post(server, id, KINDS.file_read);
	await server.stop();
	await server.restart();
	await post(server, id, [input.text('1. b\n'), input.end()]);
	const messages = (await eventsOf(server, id)).filter(({ type }) => type === 'agent_message');
	assert.deepEqual(messages.map(({ seq, data }) => [seq, data.continues, data.context, data.start, data.html]), [
		[1, undefined, undefined, undefined, '<ol>\n<li>a\n<ul>\n<li>x</li>\n</ul>\n</li>\n</ol>\n'],
		[5, 1, '1. &#32;\n\n', undefined, '<ol>\n<li>\n<p> </p>\n<ul>\n<li>y</li>\n</ul>\n</li>\n</ol>\n'],
		[7, 5, undefined, 2, '<ol start="2">\n<li>b</li>\n</ol>\n'],
	]);
});

test('each format, a page that begins behind the cut, previews and commands have the context', async (t) => {
	const server = await start(t);
	const { id } = await server.createSession({ id: 's' });
	const preview = await Observer.connect(t, server, id, { query: { format: 'html', deltas: 'html' } });
	await preview.load();
	await post(server, id, [{ type: 'user_prompt', data: { message: 'List' } }, input.text('1. one\n\n'), KINDS.tool_call, input.text('1. two\n')]);
	await preview.waitFor(({ type, data }) => type === 'preview' && data.html === '<ol start="2">\n<li>two</li>\n</ol>\n');
	await post(server, id, [input.text('\n'), input.toolDone('call')]);
	await post(server, id, [input.text('   * inner\n')]);
	await preview.waitFor(({ type, data }) => type === 'preview' && data.html.startsWith('<ol start="2">\n<li>\n<p> </p>\n<ul>\n<li>inner</li>'));
	await post(server, id, [input.text('\nend\n'), input.end()]);
	preview.finish();
	const dataOf = (events, seq) => events.find((event) => event.seq === seq).data;
	assert.deepEqual(dataOf(await eventsOf(server, id, 'format=html'), 4), { html: '<ol start="2">\n<li>two</li>\n</ol>\n', continues: 2 });
	assert.deepEqual(dataOf(await eventsOf(server, id, 'format=markdown'), 4), { markdown: '1. two\n\n', continues: 2, start: 2 });
	const page = await eventsOf(server, id, 'format=markdown&after_seq=5');
	assert.deepEqual(dataOf(page, 6), { markdown: '   * inner\n\n', continues: 4, context: '2. &#32;\n\n' });
	const [newest] = (await server.request('GET', `/api/sessions/${id}/events?format=both&before_seq=7&limit=1`)).body.events;
	assert.match(newest.data.html, /^<ol start="2">\n<li>\n<p> <\/p>\n<ul>\n<li>inner/);
	// In the transcript the whole list is in one piece, and the tool calls are behind it.
	const { stdout } = await runToEnd(['export', server.dataDir, id, '--format', 'markdown']);
	assert.match(stdout, /\n1\. one\n\n1\. two\n\n {3}\* inner\n\n/);
	assert.ok(stdout.indexOf('inner') < stdout.indexOf('call'), stdout);
});
