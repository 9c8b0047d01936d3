// Blocks of text and what comes in the middle of them (docs/blocks.md), seen from outside.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { Server } from '../support/server.mjs';

const TEXT_DELTAS = { format: 'markdown', deltas: 'text' };

async function start(t, query = TEXT_DELTAS) {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const live = await Observer.connect(t, server, id, { query });
	await live.loadAll();
	return { server, id, live };
}

const permission = {
	type: 'permission_request',
	data: { request_id: 'perm-1', tool_call: { tool_call_id: 't1' }, options: [{ option_id: 'yes', name: 'Yes', kind: 'allow_once' }] },
};

/** [type, text or tool id] of each event. */
const inShort = (events) => events.map(({ type, data }) => [type, data.markdown ?? data.text ?? data.tool_call_id ?? null]);

const markdownOf = (events) => events.filter((e) => e.type === 'agent_message').map((e) => e.data.markdown).join('');

/** The deltas of each event, joined: Map of seq to text. Asserts that no one leaves a hole. */
function joinDeltas(observer) {
	const texts = new Map();
	for (const { data } of observer.frames.filter((f) => f.type === 'delta')) {
		const before = texts.get(data.seq) ?? '';
		assert.equal(data.offset, Buffer.byteLength(before), `the delta of seq ${data.seq} fits what is there`);
		assert.notEqual(data.text, '');
		texts.set(data.seq, before + data.text);
	}
	return texts;
}

const BLOCKS = {
	list: ['1. first\n2. sec', 'ond\n   more of it\n', '3. third\n'],
	'nested list': ['- outer\n  - in', 'ner\n', '    deeper\n- outer again\n'],
	'loose list': ['- one\n\n- t', 'wo\n', '\n  its second paragraph\n\n- three\n'],
	table: ['| a | b |\n|---|---|\n| 1', ' | 2 |\n', '| 3 | `x|y` |\n'],
	fence: ['```md\n# not a heading\n', '\n- no list\n``', '` no end\n``\n````\n'],
	'tilde fence': ['~~~~\n~~~\n', '```\n\n', '  ~~~~\n'],
	quote: ['> said\n> by', ' somebody\n', '> else\n'],
};

for (const [name, [head, middle, tail]] of Object.entries(BLOCKS)) {
	test(`tool calls in the middle of a ${name} come after it, with the numbers of their arrival`, async (t) => {
		const { server, id, live } = await start(t);
		const { acks } = await post(server, id, [
			input.text('Before.\n\n'), input.tool('t1'), input.text(head), input.tool('t2'), input.thought('hm'),
			input.text(middle), input.toolDone('t2'), input.plan('p'), input.text(tail), input.text('\nAfter.\n'), input.end(),
		]);
		const events = await live.waitForEvent('turn_end').then(() => live.events());
		assert.deepEqual(acks.map((a) => a.seq), [1, 2, 3, 4, 5, 3, 6, 7, 3, acks[9].seq, 9]);
		// A closed fence has gone out when the blank line comes; the others go out with it.
		const [block, after] = name.endsWith('fence') ? [head + middle + tail, '\nAfter.\n'] : [`${head}${middle}${tail}\n`, 'After.\n'];
		assert.deepEqual(inShort(events), [
			['agent_message', 'Before.\n\n'], ['tool_call', 't1'], ['agent_message', block], ['tool_call', 't2'],
			['agent_thought', 'hm'], ['tool_call_update', 't2'], ['plan', null], ['agent_message', after], ['turn_end', null],
		]);
		assert.ok(events.every((e) => e.data.continues === undefined), 'nothing was cut');
		const notices = live.frames.filter((f) => f.type === 'activity').map((f) => [f.data.seq, f.data.type, f.data.data.tool_call_id]);
		assert.deepEqual(notices, [[4, 'tool_call', 't2'], [5, 'agent_thought', undefined], [6, 'tool_call_update', 't2'], [7, 'plan', undefined]]);
		assert.deepEqual(readLog(server, id), events);
	});
}

test('a late joiner mid-block sees the open text, and deltas go on where it ends', async (t) => {
	const { server, id, live } = await start(t);
	const producer = await Producer.connect(t, server, id);
	const pieces = ['```js\nconst a = "öä";\n', 'const b = "👋";\n', 'const c = "中文";\n', 'const d = 1;\n'];
	await producer.append(input.tool('t1'), input.text(pieces[0]));
	const late = [];
	for (const [i, piece] of pieces.slice(1).entries()) {
		const observer = await Observer.connect(t, server, id, { query: TEXT_DELTAS });
		// From the start, after the position, and the newest page: all reach the end.
		const page = await observer.load([{ after_seq: 0 }, { after_seq: 1, epoch: observer.epoch }, {}][i]);
		const sofar = pieces.slice(0, i + 1).join('');
		assert.deepEqual(page.open, { seq: 2, type: 'agent_message', text: sofar });
		await producer.append(input.text(piece));
		const { data } = await observer.waitFor('delta');
		assert.deepEqual(data, { seq: 2, type: 'agent_message', offset: Buffer.byteLength(sofar), text: piece });
		late.push(observer);
	}
	const plain = await Observer.connect(t, server, id);
	assert.equal((await plain.load({})).open, undefined, 'who did not ask for deltas sees no open text');
	const { max_seq: last } = await producer.append(input.text('```\n'), input.end());
	const whole = `${pieces.join('')}\`\`\`\n`;
	for (const observer of [...late, live]) {
		assert.equal((await observer.waitForSeq(last)).find((e) => e.seq === 2).data.markdown, whole);
	}
	const after = await Observer.connect(t, server, id, { query: TEXT_DELTAS });
	assert.equal((await after.load({})).open, undefined, 'nothing is open any more');
});

test('a late joiner mid-block sees the open block as HTML', async (t) => {
	const { server, id, live } = await start(t, { deltas: 'html' });
	const producer = await Producer.connect(t, server, id);
	await producer.append(input.text('- one\n- **tw'));
	const { data: first } = await live.waitFor((f) => f.type === 'preview' && f.data.html.includes('<strong>tw</strong>'));
	assert.equal(first.seq, 1);
	const late = await Observer.connect(t, server, id, { query: { deltas: 'html' } });
	const { open } = await late.load({});
	if (open) { // the preview may not have been made yet for anybody; then it comes at once
		assert.deepEqual(open, { seq: 1, type: 'agent_message', html: first.html });
	}
	await producer.append(input.text('o**\n'));
	for (const observer of [live, late]) {
		const { data } = await observer.waitFor((f) => f.type === 'preview' && f.data.html.includes('<strong>two</strong>'));
		assert.equal(data.html, '<ul>\n<li>one</li>\n<li><strong>two</strong></li>\n</ul>\n');
	}
	await producer.append(input.end());
	assert.equal((await late.waitForSeq(2))[0].data.html, '<ul>\n<li>one</li>\n<li><strong>two</strong></li>\n</ul>\n');
});

test('the deltas of an event, joined, are its markdown up to the line that may still change', async (t) => {
	const { server, id, live } = await start(t);
	const producer = await Producer.connect(t, server, id);
	const text = 'Some *text* with ünïcödé 👋🏽.\nTwo lines.\n\n- a list\n  of it\n- 中文\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nint é;\n\n```\n\n> quote\n\nThe end.';
	const pieces = text.match(/[^]{1,3}/gu);
	let sent = '';
	for (const piece of pieces) {
		await producer.append(input.text(piece));
		sent += piece;
	}
	// Whatever is certain has been told before the end of the turn makes it an event.
	await live.waitUntil(() => [...joinDeltas(live).values()].at(-1) === 'The end.', 'the last delta');
	const { max_seq: last } = await producer.append(input.end());
	const events = await live.waitForSeq(last);
	assert.equal(markdownOf(events), text);
	const deltas = joinDeltas(live);
	const messages = events.filter((e) => e.type === 'agent_message');
	assert.deepEqual([...deltas.keys()], messages.map((e) => e.seq));
	for (const { seq, data } of messages) {
		// The next line decides whether the last one of a paragraph is in it: it could be the head of a table.
		assert.ok(data.markdown.startsWith(deltas.get(seq)), `seq ${seq}`);
		const untold = data.markdown.slice(deltas.get(seq).length).trim();
		assert.ok(!untold.includes('\n'), `seq ${seq} was told but for ${JSON.stringify(untold)}`);
	}
});

test('a delta never splits a character, and is right when a whole turn comes at once', async (t) => {
	const { server, id, live } = await start(t);
	await post(server, id, [...'中文👋é\n- 中\n- 文\n'.repeat(20)].map((c) => input.text(c)));
	const { max_seq: last } = await post(server, id, input.end());
	const events = await live.waitForSeq(last);
	assert.equal(markdownOf(events), '中文👋é\n- 中\n- 文\n'.repeat(20));
	for (const [seq, text] of joinDeltas(live)) {
		assert.ok(events[seq - 1].data.markdown.startsWith(text), `seq ${seq}`);
	}
});

for (const [name, head] of [['list', '- one\n- two\n'], ['table', '| a |\n|---|\n| 1 |\n'], ['fence', '```\nmake\n']]) {
	test(`a tool call held in a ${name} goes out although no more text comes`, async (t) => {
		const { server, id, live } = await start(t);
		const { acks } = await post(server, id, [input.text(head), input.tool('t1'), input.thought('waiting')]);
		assert.deepEqual(acks.map((a) => a.seq), [1, 2, 3]);
		assert.deepEqual(inShort(await live.waitForSeq(3)), [['agent_message', head], ['tool_call', 't1'], ['agent_thought', 'waiting']]);
		assert.equal((await server.request('GET', `/api/sessions/${id}`)).body.is_prompting, true, 'the turn goes on');
		// The rest of the block is a second part of it, which says so.
		const rest = { list: '- three\n', table: '| 2 |\n', fence: 'make test\n```\n' }[name];
		const { max_seq: last } = await post(server, id, [input.text(rest), input.end()]);
		const events = await live.waitForSeq(last);
		assert.deepEqual(inShort(events.slice(3)), [['agent_message', rest], ['turn_end', null]]);
		assert.equal(events[3].data.continues, 1);
		const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=3&format=html`);
		assert.match(body.events[0].data.html, { list: /<li>three<\/li>/, table: /<td>2<\/td>/, fence: /<code>make test/ }[name]);
	});
}

test('a permission request flushes what is open and held', async (t) => {
	const { server, id, live } = await start(t);
	const { acks, max_seq: shown } = await post(server, id, [
		input.text('Now:\n\n'), input.text('- **one\n- tw'), input.tool('t1'), input.text('o'), input.thought('May I?'), permission,
	]);
	assert.equal(acks.at(-1).seq, 5);
	assert.equal(shown, 5, 'nothing waits: the agent waits for an answer');
	assert.deepEqual(inShort(await live.waitForSeq(5)), [
		['agent_message', 'Now:\n\n'], ['agent_message', '- **one\n- two'], ['tool_call', 't1'], ['agent_thought', 'May I?'], ['permission_request', null],
	]);
	await live.waitFor((f) => f.type === 'state' && f.data.status === 'waiting');
	await live.send('permission_answer', { request_id: 'perm-1', option_id: 'yes' });
	await live.waitForEvent('permission_resolved');
	const { max_seq: last } = await post(server, id, [input.text(' and a half\n'), input.end()]);
	assert.equal(markdownOf(await live.waitForSeq(last)), 'Now:\n\n- **one\n- two and a half\n');
	assert.equal(live.events()[6].data.continues, 2);
});

test('a turn ends once, whoever says so, and takes along all that is open', async (t) => {
	const { server, id, live } = await start(t);
	const complete = { type: 'text_complete', data: {} };
	const idle = { type: 'session_idle', data: {} };
	const producer = await Producer.connect(t, server, id);
	for (const [n, ends] of [[input.end(), input.end()], [complete, idle], [idle, complete], [complete, input.end(), idle]].entries()) {
		const { acks } = await producer.append(input.text('```\nopen'), input.tool(`t${n}`), ...ends);
		const seq = n * 3 + 3;
		assert.deepEqual(acks.slice(2), ends.map((_, i) => ({ seq, duplicate: i > 0 })));
		// Also in an append of its own, which has nothing for the disk.
		assert.deepEqual((await producer.append(ends.at(-1))).acks, [{ seq, duplicate: true }]);
		assert.deepEqual((await post(server, id, ends.at(-1))).acks, [{ seq, duplicate: true }]);
	}
	assert.deepEqual(inShort(await live.waitForSeq(12)), [0, 1, 2, 3].flatMap((n) =>
		[['agent_message', '```\nopen'], ['tool_call', `t${n}`], ['turn_end', null]]));
	assert.deepEqual(live.events().map((e) => e.turn), [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]);
	assert.equal(readLog(server, id).length, 12);
});

test('a chunk is acknowledged with the event that its text is in', async (t) => {
	const { server, id, live } = await start(t);
	const texts = ['One.\n\n', '- two\n', '- two too\n', '\n', 'Three.\n\n', '```\n4\n', '```\n', 'Five.'];
	const { acks, max_seq: last } = await post(server, id, [...texts.map((text) => input.text(text)), input.end()]);
	const events = await live.waitForSeq(last);
	assert.equal(markdownOf(events), texts.join(''));
	// Each has its ink in one event only.
	const holders = texts.map((text) => events.find((e) => e.data.markdown?.includes(text.trimEnd()))?.seq);
	holders[3] = 2; // the blank line belongs to the list
	holders[6] = holders[5]; // the end of the fence
	assert.deepEqual(acks.slice(0, -1).map((a) => a.seq), holders);
});

test('the same text in other pieces makes the same blocks', async (t) => {
	const { server, live } = await start(t);
	const text = 'Intro\n===\n\nA *b\n**c** d*\n\n1. x\n   - y\n\n     z\n2. w\n***\n'
		+ '| a | b |\n|:-:|--|\n| `|` | \\| |\nno row\n\n~~~ x\n```\n~~~\n> q\nlazy\n\n<div>\nhtml\n</div>\n\n[r]: /u\n\nend [r]';
	const results = [];
	for (const size of [1, 2, 3, 7, 50, 10_000]) {
		const { id } = await server.createSession();
		await post(server, id, [...text.match(new RegExp(`[^]{1,${size}}`, 'gu')).map((piece) => input.text(piece)), input.end()]);
		results.push(readLog(server, id).map((e) => e.data.markdown));
	}
	assert.equal(results[0].join(''), text);
	results.forEach((result) => assert.deepEqual(result, results[0]));
	assert.deepEqual(live.events(), [], 'another session hears nothing of it');
});
