// An agent that nobody here wrote: the example agent of the ACP SDK.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog, withoutText } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Server, exampleAgent } from '../support/server.mjs';

const BEGIN = 'I\'ll help you with that. Let me start by reading some files to understand the current situation.';
const THEN = ' Now I understand the project structure. I need to make some changes to improve it.';
const END = {
	allow: ' Perfect! I\'ve successfully updated the configuration. The changes have been applied.',
	reject: ' I understand you prefer not to make that change. I\'ll skip the configuration update.',
};

async function start(t) {
	const server = await Server.start(t, { agent: exampleAgent() });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown', client_id: 'asker' } });
	const other = await Observer.connect(t, server, id, { query: { client_id: 'answerer', deltas: 'text' } });
	await observer.loadAll();
	await other.loadAll();
	return { server, id, observer, other };
}

/** [type, what tells it from others] of each event. */
const inShort = (events) => events.map(({ type, data }) => [type, data.markdown ?? data.tool_call_id ?? data.option_id ?? data.stop_reason ?? null]);

for (const answer of ['allow', 'reject']) {
	test(`the SDK's example agent runs through the relay: ${answer}`, async (t) => {
		const { server, id, observer, other } = await start(t);
		const { seq } = await observer.prompt('Please mend the configuration', 'p-1');
		assert.equal(seq, 1);
		const request = await other.waitForEvent('permission_request');
		assert.deepEqual(request.data.options, [
			{ option_id: 'allow', name: 'Allow this change', kind: 'allow_once' }, { option_id: 'reject', name: 'Skip this change', kind: 'reject_once' },
		]);
		assert.equal(request.data.tool_call.tool_call_id, 'call_2');
		assert.deepEqual(request.data.tool_call.raw_input, { path: '/home/user/project/config.json', content: '{"database": {"host": "new-host"}}' });
		await other.waitFor((f) => f.type === 'state' && f.data.status === 'waiting');
		await other.send('permission_answer', { request_id: request.data.request_id, option_id: answer });
		const end = await observer.waitForEvent('turn_end');
		const events = observer.events();
		assert.deepEqual(inShort(events), [
			['user_prompt', null], ['agent_started', null], ['agent_message', BEGIN], ['tool_call', 'call_1'], ['tool_call_update', 'call_1'],
			['agent_message', THEN], ['tool_call', 'call_2'], ['permission_request', null], ['permission_resolved', answer],
			...(answer === 'allow' ? [['tool_call_update', 'call_2']] : []), ['agent_message', END[answer]], ['turn_end', 'end_turn'],
		]);
		assert.deepEqual(events[3].data, {
			tool_call_id: 'call_1', title: 'Reading project files', kind: 'read', status: 'pending',
			locations: [{ path: '/project/README.md' }], raw_input: { path: '/project/README.md' },
		});
		assert.deepEqual(events[4].data, {
			tool_call_id: 'call_1', status: 'completed', raw_output: { content: '# My Project\n\nThis is a sample project...' },
			content: [{ type: 'content', content: { type: 'text', text: '# My Project\n\nThis is a sample project...' } }],
		});
		assert.equal(events[8].data.by, 'answerer');
		assert.deepEqual(readLog(server, id), events);
		assert.deepEqual(withoutText(await other.waitForSeq(end.seq)), withoutText(events));
	});
}

test('the SDK\'s example agent takes a cancel while it asks, and another prompt after it', async (t) => {
	const { server, id, observer, other } = await start(t);
	await observer.prompt('Please', 'p-1');
	await observer.prompt('Again', 'p-2');
	await observer.waitForEvent('permission_request');
	await other.send('cancel');
	const end = await observer.waitForEvent('turn_end');
	assert.deepEqual(observer.events().filter((e) => e.type === 'permission_resolved').map((e) => e.data.outcome), ['cancelled']);
	assert.ok(['cancelled', 'end_turn'].includes(end.data.stop_reason), end.data.stop_reason);
	const again = await observer.waitForEvent('permission_request', { after: end.seq });
	await observer.send('permission_answer', { request_id: again.data.request_id, option_id: 'reject' });
	assert.equal((await observer.waitForEvent('turn_end', { after: again.seq })).data.stop_reason, 'end_turn');
	assert.equal(observer.events().filter((e) => e.type === 'agent_started').length, 1);
	assert.deepEqual(readLog(server, id), observer.events());
});
