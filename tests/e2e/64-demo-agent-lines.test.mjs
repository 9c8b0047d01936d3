// The demo agent's manners when things go wrong: bad lines, odd pieces, an end in mid-turn; and its command line.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { Agent, BINARY, run, stopReason, test } from "../support/agent_client.mjs";

function request(id, method, params) {
	return JSON.stringify({ jsonrpc: "2.0", id, method, params });
}

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
		[request("mode", "session/set_mode", { ...session, modeId: "x" }), -32602, "mode"],
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
	assert.equal(agent.messages.length, count + 3, "the title, the usage and the answer");
});

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
	const opened = await agent.open();
	assert.match(opened, /^sess_/);
	assert.equal(agent.messages.filter((message) => !message.method).length, 3, "an error and two answers");
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
