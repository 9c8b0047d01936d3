// What the demo agent says: the protocol, the words that choose, permissions and files.

import assert from "node:assert/strict";
import { Agent, CWD, FILE, README, chunkText, permissive, run, select, stopReason, test } from "../support/agent_client.mjs";

test("initialize says who it is and what it cannot do", async (t) => {
	const agent = new Agent(t);
	const { result } = await agent.request("initialize", { protocolVersion: 1 });
	assert.equal(result.protocolVersion, 1);
	assert.equal(result.agentInfo.name, "holdfast-demo-agent");
	assert.equal(result.agentInfo.title, "Holdfast demo agent");
	assert.match(result.agentInfo.version, /^\d+\.\d+\.\d+$/);
	assert.equal(result.agentCapabilities.loadSession, false);
	assert.deepEqual((await agent.request("authenticate", { methodId: "none" })).result, {});
});

test("the tour says the same bytes each time", async (t) => {
	const [one, two] = await Promise.all([run(t, "tour"), run(t, "tour", { rate: 100000 })]);
	assert.equal(stopReason(one), "end_turn");
	assert.equal(one.raw, two.raw);
	assert.deepEqual(one.notJson, []);
});

test("the tour shows every construct", async (t) => {
	const agent = await run(t, "Please show me the Tour!");
	const text = agent.text();
	assert.match(text, /^# A short tour/m);
	assert.match(text, /\*\*bold\*\*/);
	assert.match(text, /`code`/);
	assert.match(text, /^1\. .*\n\n2\. /m, "a loose list");
	assert.match(text, /^- .*\n {2}- .*\n {4}1\. .*\n.*\n {7}- /m, "a nested list");
	assert.match(text, /^\|:-+\|:-+\|:-+:\|$/m, "a table");
	assert.match(text, /^```js\n[^]*?`\/api[^]*?^```$/m, "a fence with backticks inside");
	assert.match(text, /^````markdown\n[^]*?^```sh\n[^]*?^````$/m, "a fence inside of a fence");
	assert.match(text, /^> /m);
	assert.match(text, /👋[^]*naïve[^]*你好/);
	assert.ok(agent.updates("agent_thought_chunk").length > 10);
	assert.equal(agent.updates("plan").length, 5);
	assert.deepEqual(
		agent.updates("plan").map((plan) => plan.entries.filter((e) => e.status === "completed").length),
		[0, 1, 2, 3, 4],
	);
	assert.equal(agent.updates("usage_update").length, 1);
	assert.deepEqual(agent.methods(), [
		"fs/read_text_file",
		"session/request_permission",
		"fs/write_text_file",
	]);
	const statuses = agent.updates("tool_call_update").map((update) => update.status);
	assert.ok(statuses.includes("completed") && statuses.includes("failed"));
});

test("the pieces are small, and cut inside of words, asterisks and backticks", async (t) => {
	const agent = await run(t, "tour");
	const pieces = agent.updates("agent_message_chunk").map((update) => update.content.text);
	assert.ok(pieces.every((piece) => piece.length > 0 && piece.length <= 24));
	assert.ok(pieces.every((piece) => !piece.includes("�")));
	assert.ok(pieces.some((piece, i) => piece.endsWith("*") && pieces[i + 1].startsWith("*")));
	assert.ok(pieces.some((piece, i) => piece.endsWith("`") && pieces[i + 1].startsWith("`")));
	assert.ok(pieces.some((piece, i) => /[a-z]$/.test(piece) && /^[a-z]/.test(pieces[i + 1])));
});

for (const [word, open, close] of [
	["list", /\n2\. [^\n]*$/, /^[^\n]+\n\n3\. /],
	["table", /\n\|[^\n]*$/, /^[^\n]+\|\n\|/],
	["fence", /\n```js\n[^]*[^\n]$/, /^[^\n]+\n[^]*\n```\n/],
]) {
	test(`a tool call begins in the middle of a line of the ${word}`, async (t) => {
		const agent = await run(t, word);
		const at = agent.messages.findIndex((m) => m.params?.update?.sessionUpdate === "tool_call");
		assert.match(agent.messages.slice(0, at).map(chunkText).join(""), open);
		assert.match(agent.messages.slice(at).map(chunkText).join(""), close);
		const ended = agent.updates("tool_call_update").at(-1);
		assert.equal(ended.status, "completed");
		assert.equal(ended.toolCallId, agent.messages[at].params.update.toolCallId);
		assert.ok(ended.content.length && ended.rawOutput);
	});
}

test("the words choose the parts, in their order", async (t) => {
	const agent = await run(t, "a table, then\nlists; then some CODE (stable, unreadable, enlist)");
	const text = agent.text();
	const places = ["| What I send", "1. **It gives", "```js"].map((part) => text.indexOf(part));
	assert.ok(places.every((place) => place >= 0));
	assert.deepEqual(places, [...places].sort((a, b) => a - b));
	assert.ok(!text.includes("README"));
	assert.doesNotMatch(text, /\n{3}/);
});

test("without a known word it greets and quotes the prompt safely", async (t) => {
	const agent = await run(t, "hi ``there`\n<b> \u0000\u001b[31m** 你好");
	assert.match(agent.text(), /You said ``` hi ``there` <b> {3}\[31m\*\* 你好 ```,/);
	assert.match(agent.text(), /`tour`/);
	const long = await run(t, "🦀".repeat(1000));
	assert.match(long.text(), /You said ` (🦀)+… `,/u);
	const empty = await run(t, "");
	assert.match(empty.text(), /You said ` \(nothing\) `,/);
});

test("long=N is N tokens long", async (t) => {
	for (const count of [1, 250, 1234]) {
		const agent = await run(t, `long=${count}`);
		assert.equal(agent.updates("agent_message_chunk").length, count);
	}
	const agent = await run(t, "long");
	assert.equal(agent.updates("agent_message_chunk").length, 3000);
	assert.equal((agent.text().match(/^```/gm) ?? []).length % 2, 0);
});

test("rate=N in the prompt sets the pace of its turn", async (t) => {
	// At the agent's own one token a second the list would take longer than a test may.
	const agent = await run(t, "rate=0 list", { rate: 1 });
	assert.equal(stopReason(agent), "end_turn");
	const slow = agent.prompt(agent.sessionId, "slow long=1000000");
	await agent.nextText("ship");
	agent.cancel(agent.sessionId);
	assert.equal((await slow).result.stopReason, "cancelled");
});

test("allowed: it asks, writes and reports the diff", async (t) => {
	const agent = await run(t, "permission");
	const call = agent.updates("tool_call")[0];
	assert.deepEqual([call.kind, call.status, call.locations[0].path], ["edit", "pending", FILE]);
	const asked = agent.messages.find((m) => m.method === "session/request_permission").params;
	assert.equal(asked.toolCall.toolCallId, call.toolCallId);
	assert.deepEqual(
		asked.options.map((option) => option.kind),
		["allow_once", "allow_always", "reject_once"],
	);
	const written = agent.messages.find((m) => m.method === "fs/write_text_file").params;
	assert.equal(written.path, FILE);
	const ended = agent.updates("tool_call_update").at(-1);
	assert.equal(ended.status, "completed");
	assert.deepEqual(ended.content[0], {
		type: "diff",
		path: FILE,
		oldText: null,
		newText: written.content,
	});
	assert.match(agent.text(), /It is written/);
});

test("rejected: it says so and writes nothing", async (t) => {
	const answers = { "session/request_permission": () => ({ result: select("reject_once") }) };
	const agent = await run(t, "permission list", { answers });
	assert.deepEqual(agent.methods(), ["session/request_permission"]);
	assert.equal(agent.updates("tool_call_update")[0].status, "failed");
	assert.match(agent.text(), /I leave it[^]*1\. \*\*It gives/);
	assert.equal(stopReason(agent), "end_turn");
});

test("always allowed: it does not ask again in this session, but in another", async (t) => {
	let asked = 0;
	const answers = {
		...permissive,
		"session/request_permission": () => (asked++, { result: select("allow_always") }),
	};
	const agent = await run(t, "permission", { answers });
	await agent.prompt(agent.sessionId, "permission");
	assert.equal(asked, 1);
	assert.match(agent.text(), /You said “always”/);
	await agent.prompt(await agent.newSession(), "permission");
	assert.equal(asked, 2);
});

for (const [name, answer] of [
	["an error", { error: { code: -32601, message: "no" } }],
	["nonsense", { result: 7 }],
	["an outcome without an option", { result: { outcome: { outcome: "selected" } } }],
]) {
	test(`${name} for a permission: nothing is written`, async (t) => {
		const answers = { "session/request_permission": () => answer };
		const agent = await run(t, "permission", { answers });
		assert.deepEqual(agent.methods(), ["session/request_permission"]);
		assert.match(agent.text(), /could not get the question across/);
		assert.equal(stopReason(agent), "end_turn");
	});
}

test("a permission answered with cancelled ends the turn as cancelled", async (t) => {
	const answers = {
		"session/request_permission": () => ({ result: { outcome: { outcome: "cancelled" } } }),
	};
	const agent = await run(t, "permission list", { answers });
	assert.equal(stopReason(agent), "cancelled");
	assert.equal(agent.updates("tool_call_update").at(-1).status, "failed");
});

test("session/cancel abandons an open question; a late answer does no harm", async (t) => {
	const agent = new Agent(t, { answers: {} });
	const sessionId = await agent.open();
	const answer = agent.prompt(sessionId, "permission");
	const asked = await agent.nextMethod("session/request_permission");
	const withdrawn = agent.nextMethod("$/cancel_request");
	agent.cancel(sessionId);
	assert.equal((await withdrawn).params.requestId, asked.id);
	assert.equal((await answer).result.stopReason, "cancelled");
	agent.send({ id: asked.id, result: select("allow_once") });
	assert.equal((await agent.prompt(sessionId, "hello")).result.stopReason, "end_turn");
	assert.deepEqual(agent.methods(), ["session/request_permission", "$/cancel_request"]);
});

test("session/cancel in the middle of the text ends the turn, and nothing follows", async (t) => {
	const agent = new Agent(t, { rate: 1000 });
	const sessionId = await agent.open();
	const answer = agent.prompt(sessionId, "long=100000");
	await agent.nextText("ship");
	agent.cancel(sessionId);
	assert.equal((await answer).result.stopReason, "cancelled");
	const count = agent.messages.length;
	await agent.request("no/such_method", {});
	assert.equal(agent.messages.length, count + 1);
});

test("hang is silent until it is cancelled; a cancel without a turn is nothing", async (t) => {
	const agent = new Agent(t);
	const sessionId = await agent.open();
	agent.cancel(sessionId);
	const answer = agent.prompt(sessionId, "hang");
	const refused = await agent.prompt(sessionId, "list");
	assert.equal(refused.error.code, -32600);
	assert.deepEqual(agent.updates().map((u) => u.sessionUpdate), ["available_commands_update", "session_info_update"]);
	agent.cancel(sessionId);
	assert.equal((await answer).result.stopReason, "cancelled");
});

test("reads a file and quotes its first line", async (t) => {
	const agent = await run(t, "read");
	const asked = agent.messages.find((m) => m.method === "fs/read_text_file").params;
	assert.deepEqual([asked.path, asked.limit], [`${CWD}/README.md`, 20]);
	assert.equal(agent.updates("tool_call_update")[0].content[0].content.text, README);
	assert.match(agent.text(), /first line is `` # A `README` ``,/);
});

for (const [name, answer] of [
	["an error", { error: { code: -32002, message: "no such file" } }],
	["nonsense", { result: { content: 5 } }],
]) {
	test(`${name} for a file: the tool call fails and the turn goes on`, async (t) => {
		const answers = { "fs/read_text_file": () => answer, "fs/write_text_file": () => answer };
		const agent = await run(t, "read list", { answers });
		const update = agent.updates("tool_call_update")[0];
		assert.equal(update.status, "failed");
		assert.match(update.content[0].content.text, /no such file|not understood/);
		assert.match(agent.text(), /No such luck[^]*1\. \*\*It gives/);
		assert.equal(stopReason(agent), "end_turn");
	});
}

test("a write that fails is reported", async (t) => {
	const answers = { "fs/write_text_file": () => ({ error: { code: -32000, message: "disk full" } }) };
	const agent = await run(t, "write", { answers });
	assert.equal(agent.updates("tool_call_update")[0].content[0].content.text, "disk full");
	assert.match(agent.text(), /That failed/);
});

test("asks for no file of a client that offers none", async (t) => {
	for (const fs of [{}, { readTextFile: false, writeTextFile: "yes" }]) {
		const agent = await run(t, "read write permission", { fs });
		assert.deepEqual(agent.methods(), ["session/request_permission"]);
		assert.equal(agent.updates("tool_call").length, 1);
		assert.equal(agent.updates("tool_call_update").at(-1).status, "failed");
		assert.equal(stopReason(agent), "end_turn");
	}
});

test("sessions have turns of their own", async (t) => {
	const agent = new Agent(t, { answers: {} });
	const one = await agent.open();
	const two = await agent.newSession();
	assert.notEqual(one, two);
	const waiting = agent.prompt(one, "permission");
	const asked = await agent.nextMethod("session/request_permission");
	assert.equal((await agent.prompt(two, "list")).result.stopReason, "end_turn");
	agent.send({ id: asked.id, result: select("reject_once") });
	assert.equal((await waiting).result.stopReason, "end_turn");
	const ofTwo = agent.messages.filter((m) => m.params?.sessionId === two).map(chunkText).join("");
	assert.match(ofTwo, /^An agent talks[^]*things began\.$/);
});

test("refuse and error end the turn their way, and the next one is not hurt", async (t) => {
	const agent = await run(t, "refuse");
	assert.equal(stopReason(agent), "refusal");
	assert.equal((await agent.prompt(agent.sessionId, "error")).error.code, -32603);
	assert.equal((await agent.prompt(agent.sessionId, "plan")).result.stopReason, "end_turn");
});

test("a session begins with its modes, its option and its commands, which are words that it knows", async (t) => {
	const agent = new Agent(t);
	await agent.request("initialize", { protocolVersion: 1 });
	const { result } = await agent.request("session/new", { cwd: CWD, mcpServers: [] });
	assert.equal(result.modes.currentModeId, "talk");
	assert.deepEqual(result.modes.availableModes.map(({ id }) => id), ["talk", "quick"]);
	assert.deepEqual(result.configOptions.map(({ id, currentValue }) => [id, currentValue]), [["thoughts", "shown"]]);
	const told = agent.updates("available_commands_update")[0] ?? (await agent.nextMethod("session/update")).params.update;
	assert.ok(told.availableCommands.length > 4);
	for (const { name } of told.availableCommands.filter(({ name }) => !["slow", "long"].includes(name))) {
		const [command, word] = [await run(t, `/${name}`), await run(t, name)];
		assert.equal(command.text(), word.text());
		assert.doesNotMatch(command.text(), /You said/);
	}
});

test("in the mode quick it says all at once, until it is told to talk", async (t) => {
	const agent = new Agent(t, { rate: 1 }); // a token in a second: the list would take longer than a test may
	const sessionId = await agent.open();
	assert.deepEqual((await agent.request("session/set_mode", { sessionId, modeId: "quick" })).result, {});
	assert.equal((await agent.prompt(sessionId, "list")).result.stopReason, "end_turn");
	await agent.request("session/set_mode", { sessionId, modeId: "talk" });
	const before = agent.text().length;
	const answer = agent.prompt(sessionId, "list");
	await agent.nextText("An");
	agent.cancel(sessionId);
	assert.equal((await answer).result.stopReason, "cancelled");
	assert.ok(agent.text().length - before < 40, "one token, or two");
});

test("thoughts are left out when it is told so, in that session only", async (t) => {
	const agent = new Agent(t);
	const sessionId = await agent.open();
	const set = (value, configId = "thoughts") => agent.request("session/set_config_option", { sessionId, configId, value });
	assert.equal((await set("hidden")).result.configOptions[0].currentValue, "hidden");
	await agent.prompt(sessionId, "thought");
	assert.equal(agent.updates("agent_thought_chunk").length, 0);
	assert.match(agent.text(), /^That was a thought/);
	await agent.prompt(await agent.newSession(), "thought");
	const count = agent.updates("agent_thought_chunk").length;
	assert.ok(count > 0);
	for (const [value, id] of [["loud"], [true], ["hidden", "speech"]]) {
		assert.equal((await set(value, id)).error.code, -32602);
	}
	assert.equal((await agent.request("session/set_mode", { sessionId, modeId: "loud" })).error.code, -32602);
	assert.equal((await agent.request("session/set_mode", { sessionId: "no", modeId: "quick" })).error.code, -32602);
	assert.equal((await set("shown")).result.configOptions[0].currentValue, "shown");
	await agent.prompt(sessionId, "thought");
	assert.equal(agent.updates("agent_thought_chunk").length, 2 * count);
});

test("the session is named after the first line of its first prompt, once", async (t) => {
	const agent = await run(t, "a list \u0000 of things\nand more");
	await agent.prompt(agent.sessionId, "plan");
	assert.deepEqual(agent.updates("session_info_update").map(({ title }) => title), ["Demo: a list \u0000 of things"]);
	const long = await run(t, "🦀".repeat(100));
	assert.match(long.updates("session_info_update")[0].title, /^Demo: (🦀){15}$/u);
});
