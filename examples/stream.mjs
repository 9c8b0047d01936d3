#!/usr/bin/env node
// Streams a markdown file into a Holdfast session, word by word, as an agent would.
//
// Node 18 or later and nothing else. A line `<!-- tool: TITLE -->` in the file becomes a tool call.
//
// Events are pushed and never waited for, as one wants it behind a model's stream: while one request is
// under way the next events gather, and go out together. Every event has a key, so that a request that
// got no answer can be sent again, and this program be started again with the same --run, without
// anything coming twice.

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

const BATCH_MAX = 1000;
const token = process.env.HOLDFAST_TOKEN;
const auth = token ? { Authorization: `Bearer ${token}` } : {};

/** Appends events to a session, in order, once, whatever happens to the connection. */
class Producer {
	#url;
	#run;
	#count = 0;
	#waiting = [];
	#sending = null;
	lastSeq = null;

	constructor(server, sessionId, run) {
		this.#url = new URL(`/api/sessions/${encodeURIComponent(sessionId)}/events?create=1`, server);
		this.#run = run;
	}

	push(event) {
		this.#waiting.push({ ...event, key: `${this.#run}:${this.#count++}` });
		this.#sending ??= this.#sendAll();
		this.#sending.catch(() => {}); // flush() tells of it
	}

	/** Resolves when everything that was pushed is on disk. */
	async flush() {
		await this.#sending;
	}

	async #sendAll() {
		await null; // what is pushed in this turn of the loop goes out together
		while (this.#waiting.length > 0) {
			const batch = this.#waiting.splice(0, BATCH_MAX);
			const { acks } = await this.#append(batch.map((event) => `${JSON.stringify(event)}\n`).join(''));
			this.lastSeq = acks.at(-1).seq;
		}
		this.#sending = null;
	}

	async #append(body) {
		for (let delay = 100; ; delay = Math.min(2 * delay, 10_000)) {
			let why;
			try {
				const answer = await fetch(this.#url, {
					method: 'POST',
					headers: { 'Content-Type': 'application/x-ndjson', ...auth },
					body,
					signal: AbortSignal.timeout(30_000),
				});
				const text = await answer.text();
				if (answer.ok) {
					return JSON.parse(text);
				}
				why = `${answer.status} ${text}`;
				if (answer.status !== 429 && answer.status < 500) {
					throw Object.assign(new Error(why), { refused: true });
				}
			} catch (error) {
				if (error.refused) {
					throw error; // the same again would be refused again
				}
				// It may have been stored or not. The keys make it safe to send it once more.
				why = error.cause?.message || error.message;
			}
			console.error(`${why}; trying again`);
			await sleep(delay * (0.5 + Math.random() / 2));
		}
	}
}

/** The events of a turn that answers with the markdown, in their order. */
function* eventsOf(markdown, name, run) {
	yield { type: 'user_prompt', data: { message: `Show me ${name}` } };
	let tools = 0;
	for (const line of markdown.match(/[^\n]*\n|[^\n]+$/g) ?? []) {
		const tool = /^<!-- tool: (.+) -->\n?$/.exec(line);
		if (tool) {
			const tool_call_id = `${run}-tool-${++tools}`;
			yield { type: 'tool_call', data: { tool_call_id, title: tool[1], kind: 'other', status: 'in_progress' } };
			yield { type: 'tool_call_update', data: { tool_call_id, status: 'completed' } };
			continue;
		}
		for (const text of line.match(/\S+\s*|\s+/g)) {
			yield { type: 'agent_message_chunk', message_id: run, data: { text } };
		}
	}
	yield { type: 'turn_end', data: { stop_reason: 'end_turn' } };
}

async function main() {
	const { values: options, positionals } = parseArgs({
		allowPositionals: true,
		options: {
			server: { type: 'string', default: 'http://127.0.0.1:8080' },
			run: { type: 'string', default: randomBytes(4).toString('hex') },
			pace: { type: 'string', default: '20' },
		},
	});
	const [session, file] = positionals;
	if (positionals.length !== 2) {
		throw new Error('Usage: node stream.mjs SESSION FILE.md [--server URL] [--run NAME] [--pace WORDS-A-SECOND]');
	}
	const pace = Number(options.pace);
	const producer = new Producer(options.server, session, options.run);
	for (const event of eventsOf(readFileSync(file, 'utf8'), file, options.run)) {
		producer.push(event);
		if (pace > 0) {
			await sleep(((event.type === 'tool_call' ? 20 : 1) / pace) * 1000);
		}
	}
	await producer.flush();
	console.log(`the whole of ${file} is in session ${session}; its end has seq ${producer.lastSeq}`);
}

main().catch((error) => {
	console.error(error.message);
	process.exitCode = 1;
});
