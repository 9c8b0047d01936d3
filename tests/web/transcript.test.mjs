/** The page's pure parts: what is folded into one item, and the line diff. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { diffLines } from '../../web/page/diff.js';
import { TranscriptModel, toolState } from '../../web/client/holdfast-client.js';

function event(seq, type, data = {}, turn = 1) {
	return { seq, type, ts: 0, turn, data };
}

function shape(model) {
	return model.items.map(
		({ kind, events }) => `${kind} ${events.map(({ seq }) => seq).join(' ')}`,
	);
}

test('updates join their tool, an answer its question, a plan its turn', () => {
	const model = new TranscriptModel([
		event(1, 'user_prompt'),
		event(2, 'tool_call', { tool_call_id: 'a', title: 'A', status: 'pending' }),
		event(3, 'plan'),
		event(4, 'permission_request', { request_id: 'r' }),
		event(5, 'permission_resolved', { request_id: 'r' }),
		event(6, 'tool_call_update', { tool_call_id: 'a', status: 'completed', title: null }),
		event(7, 'plan'),
		event(8, 'turn_end', { stop_reason: 'end_turn' }),
		event(9, 'plan', {}, 2),
		event(10, 'turn_end', { stop_reason: 'cancelled' }, 2),
	]);
	assert.deepEqual(shape(model), [
		'prompt 1',
		'tool 2 6',
		'plan 3 7',
		'permission 4 5',
		'silent 8',
		'plan 9',
		'turn_end 10',
	]);
	assert.deepEqual(toolState(model.items[1]), {
		tool_call_id: 'a',
		title: 'A',
		status: 'completed',
	});
});

test('the same tool_call_id in another turn is another call', () => {
	const model = new TranscriptModel([
		event(1, 'tool_call', { tool_call_id: 'a' }, 1),
		event(2, 'tool_call', { tool_call_id: 'a' }, 2),
		event(3, 'tool_call_update', { tool_call_id: 'a' }, 2),
	]);
	assert.deepEqual(shape(model), ['tool 1', 'tool 2 3']);
});

test('adjacent thoughts are one, others are not', () => {
	const model = new TranscriptModel([
		event(1, 'agent_thought'),
		event(2, 'agent_thought'),
		event(3, 'agent_message'),
		event(4, 'agent_thought'),
		event(5, 'agent_thought', {}, 2),
	]);
	assert.deepEqual(shape(model), ['thought 1 2', 'message 3', 'thought 4', 'thought 5']);
});

test('an update whose call is not loaded stands for it until it is', () => {
	const update = event(9, 'tool_call_update', { tool_call_id: 'a', status: 'completed' });
	assert.deepEqual(shape(new TranscriptModel([update])), ['tool 9']);
	assert.deepEqual(
		shape(new TranscriptModel([event(8, 'tool_call', { tool_call_id: 'a' }), update])),
		['tool 8 9'],
	);
});

test('types nobody knows are shown, ACP leftovers are not', () => {
	const model = new TranscriptModel([
		event(1, 'x-build'),
		event(2, 'x-acp-current_mode_update'),
		event(3, 'usage'),
	]);
	assert.deepEqual(shape(model), ['other 1', 'silent 2', 'silent 3']);
});

function marks(oldText, newText) {
	const sign = { same: ' ', add: '+', del: '-', skip: '~' };
	return diffLines(oldText, newText).lines.map(({ kind, text }) => sign[kind] + text);
}

test('a diff shows what was removed, then what was added, with the lines around', () => {
	assert.deepEqual(marks('a\nb\nc\n', 'a\nB\nc\n'), [' a', '-b', '+B', ' c']);
	assert.deepEqual(marks(null, 'x\ny'), ['+x', '+y']);
	assert.deepEqual(marks('x\n', ''), ['-x']);
	assert.deepEqual(marks('a\na\na\n', 'a\na\n'), [' a', ' a', '-a']);
});

test('lines far from every change are folded, and numbers stay true', () => {
	const old = Array.from({ length: 20 }, (_, i) => `line ${i + 1}`);
	const { lines, added, removed } = diffLines(old.join('\n'), [...old, 'line 21'].join('\n'));
	assert.deepEqual(
		lines.map(({ kind, newLine }) => `${kind} ${newLine ?? ''}`.trim()),
		['skip', 'same 18', 'same 19', 'same 20', 'add 21'],
	);
	assert.equal(lines[0].text, '17 unchanged lines');
	assert.deepEqual([added, removed], [1, 0]);
});

test('any two texts: the old lines and the new lines can be read back from the diff', () => {
	let state = 7;
	const random = (n) => {
		state = (state * 1103515245 + 12345) % 2147483648;
		return Math.floor(state / 65536) % n;
	};
	for (let i = 0; i < 300; i += 1) {
		const make = () => Array.from({ length: random(6) }, () => 'abc'[random(3)]);
		const [a, b] = [make(), make()];
		const { lines } = diffLines(a.join('\n'), b.join('\n'));
		assert.equal(
			lines.some(({ kind }) => kind === 'skip'),
			lines.length > 0 && a.join() === b.join() && a.length > 1,
		);
		if (!lines.some(({ kind }) => kind === 'skip')) {
			assert.deepEqual(
				lines.filter(({ kind }) => kind !== 'add').map(({ text }) => text),
				a,
			);
			assert.deepEqual(
				lines.filter(({ kind }) => kind !== 'del').map(({ text }) => text),
				b,
			);
		}
	}
});

test('texts too large to compare are shown as removed and added', () => {
	const { added, removed } = diffLines(
		Array(2000).fill('a').join('\n'),
		Array(2000).fill('b').join('\n'),
	);
	assert.deepEqual([added, removed], [2000, 2000]);
});
