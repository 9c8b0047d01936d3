// A client of the demo agent alone, over its stdin and stdout. Each message of the agent is held against the official
// schema. Needs HOLDFAST_DEMO_AGENT, the path of the binary.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { test as nodeTest } from "node:test";
import Ajv2020 from "ajv/dist/2020.js";
import { patience } from "./wait.mjs";

export const BINARY = process.env.HOLDFAST_DEMO_AGENT;
assert.ok(BINARY, "HOLDFAST_DEMO_AGENT must name the binary");

// Whoever waits for a message that does not come fails instead of waiting for ever.
export const test = (name, run) => nodeTest(name, { timeout: 60_000 * patience }, run);

export const CWD = "/work folder/naïve";
export const FILE = `${CWD}/holdfast-demo.txt`;
export const README = "\n# A `README`\n\nand more\n";

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
	"session/set_mode": "SetSessionModeResponse",
	"session/set_config_option": "SetSessionConfigOptionResponse",
};

function assertValid(definition, value) {
	const validate = ajv.getSchema(`acp#/$defs/${definition}`);
	assert.ok(validate(value), `${definition}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(value)}`);
}

// Answers what the agent asks, as a client that allows everything.
export const permissive = {
	"session/request_permission": () => ({ result: select("allow_once") }),
	"fs/read_text_file": () => ({ result: { content: README } }),
	"fs/write_text_file": () => ({ result: null }),
};

export function select(optionId) {
	return { outcome: { outcome: "selected", optionId } };
}

export class Agent {
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
		const timer = setTimeout(() => this.child.kill("SIGKILL"), 10_000 * patience);
		this.child.stdin.end();
		this.child.stdout.resume();
		assert.deepEqual(await this.exit, { code: this.exitCode, signal: null }, this.stderr);
		clearTimeout(timer);
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

export function chunkText(message) {
	const update = message.params?.update;
	return update?.sessionUpdate === "agent_message_chunk" ? update.content.text : "";
}

/** Opens a session, prompts, waits for the end of the turn. */
export async function run(t, text, options = {}) {
	const agent = new Agent(t, options);
	const sessionId = await agent.open(options.fs);
	agent.answer = await agent.prompt(sessionId, text);
	agent.sessionId = sessionId;
	return agent;
}

export function stopReason(agent) {
	return agent.answer.result?.stopReason;
}
