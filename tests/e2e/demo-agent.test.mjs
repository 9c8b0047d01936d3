// The demo agent alone, over its stdin and stdout: the protocol, the words, and its manners when
// things go wrong. Needs HOLDFAST_DEMO_AGENT, the path of the binary.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { test as nodeTest } from "node:test";
import Ajv2020 from "ajv/dist/2020.js";

const BINARY = process.env.HOLDFAST_DEMO_AGENT;
assert.ok(BINARY, "HOLDFAST_DEMO_AGENT must name the binary");

// Whoever waits for a message that does not come fails instead of waiting for ever.
const test = (name, run) => nodeTest(name, { timeout: 60_000 }, run);

const CWD = "/work folder/naïve";
const FILE = `${CWD}/holdfast-demo.txt`;
const README = "\n# A `README`\n\nand more\n";

const schemaUrl = new URL(
	"../schema/schema.json",
	import.meta.resolve("@agentclientprotocol/sdk"),
);
const ajv = new Ajv2020({ strict: false, validateFormats: false });
ajv.addSchema(JSON.parse(readFileSync(schemaUrl, "utf8")), "acp");

// The schema's name for the params of what the agent sends, and for the results of what we ask.
const SENT = {
	"session/update": "SessionNotification",
	"session/request_permission": "RequestPermissionRequest",
	"fs/read_text_file": "ReadTextFileRequest",
	"fs/write_text_file": "WriteTextFileRequest",
	"$/cancel_request": "CancelRequestNotification",
};
const ANSWERED = {
	initialize: "InitializeResponse",
	authenticate: "AuthenticateResponse",
	"session/new": "NewSessionResponse",
	"session/prompt": "PromptResponse",
};

function assertValid(definition, value) {
	const validate = ajv.getSchema(`acp#/$defs/${definition}`);
	assert.ok(validate(value), `${definition}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(value)}`);
}

// Answers what the agent asks, as a client that allows everything.
const permissive = {
	"session/request_permission": () => ({ result: select("allow_once") }),
	"fs/read_text_file": () => ({ result: { content: README } }),
	"fs/write_text_file": () => ({ result: null }),
};

function select(optionId) {
	return { outcome: { outcome: "selected", optionId } };
}

class Agent {
	messages = []; // parsed, in order
	raw = ""; // what came on stdout, all of it
	notJson = [];
	stderr = "";
	exitCode = 0; // which it should end with
	#waiting = []; // {check, resolve, reject}
	#asked = new Map(); // request id -> method
	#nextId = 1;
	#tail = "";

	constructor(t, { rate = 0, answers = permissive, read = true } = {}) {
		this.answers = answers;
		this.child = spawn(BINARY, ["--rate", String(rate)], { stdio: ["pipe", "pipe", "pipe"] });
		t.after(() => this.#end());
		this.exit = new Promise((resolve) => {
			this.child.once("close", (code, signal) => {
				for (const waiting of this.#waiting) {
					waiting.reject(new Error(`the agent is gone: ${code ?? signal}\n${this.stderr}`));
				}
				resolve({ code, signal });
			});
		});
		this.child.stdin.on("error", () => {}); // it may exit before it has read everything
		this.child.stderr.on("data", (data) => (this.stderr += data));
		this.child.stdout.setEncoding("utf8");
		if (read) {
			this.child.stdout.on("data", (text) => this.#take(text));
		}
	}

	// Every test ends with an agent that ends well, with nothing left open if it has a leak checker.
	async #end() {
		const patience = setTimeout(() => this.child.kill("SIGKILL"), 10_000);
		this.child.stdin.end();
		this.child.stdout.resume();
		assert.deepEqual(await this.exit, { code: this.exitCode, signal: null }, this.stderr);
		clearTimeout(patience);
	}

	#take(text) {
		this.raw += text;
		const lines = (this.#tail + text).split("\n");
		this.#tail = lines.pop();
		for (const line of lines) {
			let message;
			try {
				message = JSON.parse(line);
			} catch {
				this.notJson.push(line);
				continue;
			}
			this.#check(message);
			this.messages.push(message);
			this.#waiting = this.#waiting.filter(({ check, resolve }) => {
				const found = check(message);
				if (found) {
					resolve(message);
				}
				return !found;
			});
			const answer = message.id !== undefined && this.answers[message.method]?.(message.params);
			if (answer) {
				this.send({ id: message.id, ...answer });
			}
		}
	}

	#check(message) {
		assert.equal(message.jsonrpc, "2.0");
		if (message.method) {
			assert.ok(SENT[message.method], `unexpected method ${message.method}`);
			assertValid(SENT[message.method], message.params);
		} else if (message.result !== undefined) {
			assertValid(ANSWERED[this.#asked.get(message.id)], message.result);
		} else {
			assertValid("Error", message.error);
		}
	}

	sendLine(line) {
		this.child.stdin.write(`${line}\n`);
	}

	send(message) {
		this.sendLine(JSON.stringify({ jsonrpc: "2.0", ...message }));
	}

	/** The first message from now on that `check` accepts. */
	next(check) {
		return new Promise((resolve, reject) => this.#waiting.push({ check, resolve, reject }));
	}

	nextMethod(method) {
		return this.next((message) => message.method === method);
	}

	nextText(text) {
		let seen = "";
		return this.next((message) => (seen += chunkText(message)).includes(text));
	}

	request(method, params) {
		const id = this.#nextId++;
		this.#asked.set(id, method);
		const answer = this.next((message) => message.id === id && !message.method);
		this.send({ id, method, params });
		return answer;
	}

	async open(fs = { readTextFile: true, writeTextFile: true }) {
		await this.request("initialize", { protocolVersion: 1, clientCapabilities: { fs } });
		return this.newSession();
	}

	async newSession() {
		const answer = await this.request("session/new", { cwd: CWD, mcpServers: [] });
		return answer.result.sessionId;
	}

	prompt(sessionId, text) {
		return this.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
	}

	cancel(sessionId) {
		this.send({ method: "session/cancel", params: { sessionId } });
	}

	updates(kind) {
		return this.messages
			.filter((message) => message.method === "session/update")
			.map((message) => message.params.update)
			.filter((update) => !kind || update.sessionUpdate === kind);
	}

	text() {
		return this.messages.map(chunkText).join("");
	}

	methods() {
		return this.messages.filter((m) => m.method && m.method !== "session/update").map((m) => m.method);
	}
}

function chunkText(message) {
	const update = message.params?.update;
	return update?.sessionUpdate === "agent_message_chunk" ? update.content.text : "";
}

/** Opens a session, prompts, waits for the end of the turn. */
async function run(t, text, options = {}) {
	const agent = new Agent(t, options);
	const sessionId = await agent.open(options.fs);
	agent.answer = await agent.prompt(sessionId, text);
	agent.sessionId = sessionId;
	return agent;
}

function stopReason(agent) {
	return agent.answer.result?.stopReason;
}

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
	assert.equal(agent.updates().length, 0);
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

test("crash and exit end the process in the middle of the text", async (t) => {
	for (const [word, code, end] of [
		["crash", 3, "sen"],
		["exit", 0, "prom"],
	]) {
		const agent = new Agent(t);
		agent.exitCode = code;
		const sessionId = await agent.open();
		agent.prompt(sessionId, word).catch(() => {});
		assert.deepEqual(await agent.exit, { code, signal: null });
		assert.ok(agent.text().endsWith(end));
	}
});

test("noise: lines that are not JSON, between two that are", async (t) => {
	const agent = await run(t, "noise");
	assert.equal(agent.notJson.length, 2);
	assert.equal(stopReason(agent), "end_turn");
	agent.child.stdin.end();
	await agent.exit;
	assert.equal(agent.stderr.split("\n").length, 4);
});

test("bad lines get their error, and the agent goes on", async (t) => {
	const agent = new Agent(t);
	const sessionId = await agent.open();
	const prompt = [{ type: "text", text: "list" }];
	const session = { sessionId };
	for (const [line, code, id] of [
		["{not json", -32700, null],
		['"\\ud83d"', -32700, null],
		["\xff", -32700, null],
		["[".repeat(100000), -32700, null],
		["[]", -32600, null],
		["{}", -32600, null],
		['{"jsonrpc":"2.0"}', -32600, null],
		['{"jsonrpc":"1.0","id":"v1","method":"initialize"}', -32600, "v1"],
		['{"jsonrpc":"2.0","id":{},"method":"initialize"}', -32600, null],
		['{"jsonrpc":"2.0","id":"m","method":7}', -32600, "m"],
		[request("u", "session/unknown", {}), -32601, "u"],
		[request("mode", "session/set_mode", { ...session, modeId: "x" }), -32601, "mode"],
		[request("load", "session/load", session), -32601, "load"],
		[request("c", "session/cancel", session), -32601, "c"],
		[request("i", "initialize", {}), -32602, "i"],
		[request("i2", "initialize", { protocolVersion: -1 }), -32602, "i2"],
		[request("p", "initialize", []), -32602, "p"],
		['{"jsonrpc":"2.0","id":"np","method":"initialize"}', -32602, "np"],
		[request("a", "authenticate", {}), -32602, "a"],
		[request("n", "session/new", { mcpServers: [] }), -32602, "n"],
		[request("n2", "session/new", { cwd: "here", mcpServers: [] }), -32602, "n2"],
		[request("n3", "session/new", { cwd: "/a\0b", mcpServers: [] }), -32602, "n3"],
		[request("n4", "session/new", { cwd: "/" }), -32602, "n4"],
		[request("s", "session/prompt", { sessionId: "sess_9", prompt }), -32602, "s"],
		[request("s2", "session/prompt", { ...session, prompt: "list" }), -32602, "s2"],
		[request("s3", "session/prompt", { ...session, prompt: [{ type: "text" }] }), -32602, "s3"],
		[request("s4", "session/prompt", { ...session, prompt: [1] }), -32602, "s4"],
	]) {
		const answer = agent.next((message) => message.error);
		agent.sendLine(line);
		const { error, id: answered } = await answer;
		assert.deepEqual([error.code, answered], [code, id], line.slice(0, 100));
	}
	// These are nothing, or nothing to answer.
	for (const line of ["", " \t\r", '{"jsonrpc":"2.0","method":"_x/notice"}']) {
		agent.sendLine(line);
	}
	for (const id of [-1, 0, 99, "x", null]) {
		agent.send({ id, result: {} });
	}
	const count = agent.messages.length;
	assert.equal((await agent.prompt(sessionId, "usage")).result.stopReason, "end_turn");
	assert.equal(agent.messages.length, count + 2);
});

function request(id, method, params) {
	return JSON.stringify({ jsonrpc: "2.0", id, method, params });
}

test("initialize comes first", async (t) => {
	const agent = new Agent(t);
	const { error } = await agent.request("session/new", { cwd: "/", mcpServers: [] });
	assert.equal(error.code, -32600);
});

test("a line without an end is refused, and the next one is read", async (t) => {
	const agent = new Agent(t);
	const refused = agent.next((message) => message.error);
	const piece = "x".repeat(1 << 20);
	for (let i = 0; i < 17; i++) {
		agent.child.stdin.write(piece);
	}
	assert.equal((await refused).error.code, -32700);
	agent.sendLine("");
	await agent.open();
	assert.equal(agent.messages.length, 3);
});

test("lines may come in any pieces, and several at once", async (t) => {
	const agent = new Agent(t);
	const lines = [
		request(1, "no/such_method", { name: "é€😀" }),
		request(2, "no/such_method", {}),
		request(3, "no/such_method", {}),
	];
	const last = agent.next((message) => message.id === 3);
	const first = Buffer.from(lines[0]);
	const cut = first.indexOf("€") + 1; // inside of the character
	await new Promise((resolve) => agent.child.stdin.write(first.subarray(0, cut), resolve));
	agent.child.stdin.write(first.subarray(cut));
	agent.child.stdin.write(`\r\n${lines[1]}\n${lines[2]}\n`);
	await last;
	assert.deepEqual(
		agent.messages.map((message) => message.id),
		[1, 2, 3],
	);
});

test("the end of stdin ends it at once, also in the middle of a turn", async (t) => {
	const agent = new Agent(t, { rate: 1000 });
	const sessionId = await agent.open();
	agent.prompt(sessionId, "long=1000000").catch(() => {});
	await agent.nextText("ship");
	agent.child.stdin.end();
	assert.deepEqual(await agent.exit, { code: 0, signal: null });
});

test("the end of stdin ends it also when nobody reads what it says", async (t) => {
	const agent = new Agent(t, { read: false });
	agent.sendLine(request(1, "initialize", { protocolVersion: 1 }));
	agent.sendLine(request(2, "session/new", { cwd: "/", mcpServers: [] }));
	const prompt = [{ type: "text", text: "long=1000000" }];
	agent.sendLine(request(3, "session/prompt", { sessionId: "sess_1", prompt }));
	agent.child.stdin.end();
	const code = await new Promise((resolve) => agent.child.once("exit", resolve));
	assert.equal(code, 0);
});

test("SIGTERM ends it with code 0", async (t) => {
	const agent = new Agent(t, { rate: 1000 });
	const sessionId = await agent.open();
	agent.prompt(sessionId, "long=1000000").catch(() => {});
	await agent.nextText("ship");
	agent.child.kill("SIGTERM");
	assert.deepEqual(await agent.exit, { code: 0, signal: null });
});

test("the command line", async (t) => {
	for (const [args, code, output] of [
		[["--help"], 0, /Usage: holdfast-demo-agent/],
		[["--version"], 0, /^holdfast-demo-agent \d+\.\d+\.\d+\n$/],
		[["--rate", "fast"], 2, /--rate takes a number/],
		[["--rate=-1"], 2, /--rate takes a number/],
		[["--rate"], 2, /requires an argument/],
		[["--sideways"], 2, /unrecognized option/],
		[["sideways"], 2, /unexpected argument/],
	]) {
		const child = spawn(BINARY, args, { stdio: ["ignore", "pipe", "pipe"] });
		t.after(() => child.kill("SIGKILL"));
		let said = "";
		child.stdout.on("data", (data) => (said += data));
		child.stderr.on("data", (data) => (said += data));
		assert.equal(await new Promise((resolve) => child.once("close", resolve)), code, args.join(" "));
		assert.match(said, output);
	}
});
