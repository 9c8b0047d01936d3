// Who reads sessions at every door while nodes come and go. Sessions live as long as the run, so nobody may hear that one of them is deleted or not found:
// what is said instead is 503 with Retry-After, a close that means "come back", or the end of a stream.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';
import { authOf, withAuth } from '../support/auth.mjs';
import { EventParser } from '../support/sse.mjs';
import { Client, assertSocketComesBack } from './clients.mjs';

const PATIENCE_MS = 5000;
const WRONG = /has been deleted|being deleted|not_found|no such session|no session with this id|session_gone|session_deleted/;

/** What a client hears of a living session is never that it does not live. */
export function assertNoObituary(where, text) {
	const at = text.search(WRONG);
	assert.ok(at < 0, `${where} was told: ${text.slice(Math.max(0, at - 200), at + 200)}`);
}

class Reader extends Client {
	rounds = 0;

	async run() {
		while (!this.world.isOver) {
			const node = this.node();
			this.rounds += await this.read(node, `${this.constructor.door} of ${this.say(node)}`) ? 1 : 0;
			await sleep(50 + this.random.below(this.world.pace));
		}
	}

	/**
	 * A request; gives {headers, text}, or null: no answer, or one that says "come back". `take`: gets the bytes of the answer as they come, which may be cut off after
	 * `ms`. Without fetch(), whose answers may never end once they are cut off.
	 */
	async ask(node, where, path, { headers = {}, ok = [200], ms = PATIENCE_MS, take = null } = {}) {
		const request = http.get(node.url + path, { agent: false, headers: withAuth(node.url, headers) });
		request.on('error', () => {}); // once() tells the one that matters
		const timer = setTimeout(() => request.destroy(), ms);
		let text = '';
		let isAnswered = false;
		try {
			const [answer] = await once(request, 'response');
			isAnswered = ok.includes(answer.statusCode);
			for await (const bytes of answer) {
				assertNoObituary(where, bytes.toString('latin1'));
				if (take && isAnswered) {
					take(bytes);
				} else {
					text += bytes.toString('latin1');
				}
			}
			text = Buffer.from(text, 'latin1').toString();
			if (isAnswered) {
				return { headers: answer.headers, text };
			}
			this.#refused(where, path, answer.statusCode, answer.headers['retry-after'], text);
		} catch (error) {
			assert.ok(!(error instanceof assert.AssertionError) && (error.code || error instanceof SyntaxError), error.stack);
			this.world.refused(`${this.constructor.door} no answer`);
		} finally {
			clearTimeout(timer);
			request.destroy();
		}
		return take && isAnswered ? { text } : null;
	}

	/** It is told when to come again. */
	#refused(where, path, status, again, text) {
		assertNoObituary(`${where}: ${path}: ${status}`, text);
		assert.equal(status, 503, `${where}: ${path}: ${text}`);
		const { code } = JSON.parse(text).error;
		assert.ok(again || !['shutting_down', 'owner_unreachable'].includes(code), `${where}: ${path}: ${code} without Retry-After`);
		this.world.refused(`${this.constructor.door} ${code}`);
	}

	/** Takes a stream of server-sent events apart until it ends, or has lasted so long. */
	async stream(node, where, path, headers, take) {
		const parser = new EventParser(take);
		const answer = await this.ask(node, where, path, {
			headers: { accept: 'text/event-stream', ...headers }, ok: [200, 204], ms: 1000 + this.random.below(PATIENCE_MS), take: (bytes) => parser.push(bytes),
		});
		return answer !== null;
	}
}

/** Pages, lists, searches and images. */
export class PageReader extends Reader {
	static door = 'REST';

	async read(node, where) {
		const after = this.random.below(this.ledger.most + 1);
		const paths = [`${this.path}/events?after_seq=${after}&limit=20&format=markdown`, `${this.path}/events?before_seq=${after + 1}&limit=20&format=markdown`, this.path, `${this.path}/queue`,
			`${this.path}/search?q=nowhere`, `/ds/sessions/${this.ledger.id}?offset=-1&format=markdown`, ...(this.ledger.blob ? [`${this.path}/blobs/${this.ledger.blob}`] : [])];
		const path = this.random.pick(paths);
		const answer = await this.ask(node, where, path);
		if (answer && path.includes('/events?')) {
			JSON.parse(answer.text).events.forEach((event) => this.ledger.show('markdown', event, where));
		}
		return answer !== null;
	}
}

/** Follows a session, and goes on where it was: each event once, in order. */
class Follower extends Reader {
	last = 0;

	take(event, where) {
		assert.equal(event.seq, this.last + 1, `${where}: event ${event.seq} after ${this.last}`);
		this.ledger.show('markdown', event, where);
		this.last = event.seq;
	}
}

export class SseReader extends Follower {
	static door = 'server-sent events';
	#lastId = null;

	read(node, where) {
		const headers = this.#lastId ? { 'last-event-id': this.#lastId } : {};
		return this.stream(node, where, `${this.path}/events?format=markdown${this.#lastId ? '' : '&after=0'}`, headers, ({ type, data, id }) => {
			assert.notEqual(type, 'reset', `${where}: ${data}`);
			if (id) {
				this.take(JSON.parse(data), where);
				this.#lastId = id;
			}
		});
	}
}

export class DsReader extends Follower {
	static door = 'Durable Streams';
	#offset = '-1';

	async read(node, where) {
		const path = `/ds/sessions/${this.ledger.id}?offset=${this.#offset}&format=markdown&live=`;
		if (this.random.oneIn(2)) {
			let read = [];
			return this.stream(node, where, `${path}sse`, {}, ({ type, data }) => {
				if (type === 'data') {
					read = JSON.parse(data);
				} else {
					read.forEach((event) => this.take(event, where));
					read = [];
					this.#offset = JSON.parse(data).streamNextOffset;
				}
			});
		}
		const answer = await this.ask(node, where, `${path}long-poll`, { ok: [200, 204] });
		if (answer === null) {
			return false;
		}
		(answer.text ? JSON.parse(answer.text) : []).forEach((event) => this.take(event, where));
		this.#offset = answer.headers['stream-next-offset'];
		return true;
	}
}

/** The stream of a chat: 204 if no turn runs. */
export class ChatReader extends Reader {
	static door = 'AI SDK';

	read(node, where) {
		return this.stream(node, where, `/api/ai/${this.ledger.id}/stream`, {}, () => {});
	}
}

/** Anything that speaks frames over a WebSocket. */
class SocketReader extends Reader {
	async read(node, where) {
		const socket = new WebSocket(node.ws(this.target), { headers: authOf(node.url) });
		let fault = null;
		let status;
		const closed = new Promise((resolve) => {
			socket.on('close', (code, reason) => resolve({ code, reason: String(reason) }));
			socket.on('error', () => {});
			socket.on('unexpected-response', (request, response) => {
				status = response.statusCode;
				request.destroy();
				resolve({ code: 1006, reason: '' });
			});
		});
		socket.on('message', (data) => {
			try {
				assertNoObituary(where, String(data));
				this.message(socket, JSON.parse(data), where);
			} catch (error) {
				fault ??= error;
			}
		});
		socket.on('open', () => this.open?.(socket));
		const end = await Promise.race([closed, sleep(1000 + this.random.below(PATIENCE_MS), null)]);
		socket.terminate();
		if (fault) {
			throw fault;
		}
		if (end) {
			assertSocketComesBack(where, end, status);
			this.world.refused(`${this.constructor.door} ${status ?? end.code}`);
		}
		return true;
	}
}

/** An editor that loads the session. */
export class EditorReader extends SocketReader {
	static door = '/acp';
	target = '/acp';

	open(socket) {
		socket.send(JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: 1, clientCapabilities: {} } }));
	}

	message(socket, { id, result, error }, where) {
		if (id === 0) {
			assert.ok(result, where);
			socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'session/load', params: { sessionId: this.ledger.id, cwd: '/', mcpServers: [] } }));
		} else if (error) {
			assert.notEqual(error.code, -32002, `${where}: ${JSON.stringify(error)}`);
			this.world.refused(`/acp ${error.data?.code ?? error.code}`);
		}
	}
}

/** Whoever looks at the list of sessions. */
export class FeedReader extends SocketReader {
	static door = 'the feed';
	target = '/api/events';

	message() {}
}

/** Prompts the agent of a session, one turn after the other. */
export class Prompter extends SocketReader {
	static door = 'prompts';
	#prompts = 0;

	get target() {
		return `${this.path}/ws?format=markdown`;
	}

	open(socket) {
		socket.send(JSON.stringify({ type: 'load_events', data: { after_seq: 0, limit: 1, follow: true } }));
		this.#prompts += 1;
		socket.send(JSON.stringify({ type: 'prompt', data: { message: 'hello', prompt_id: `${this.ledger.id}-${this.#prompts}` } }));
	}

	message(socket, { type, data }, where) {
		if (type === 'error') {
			assert.ok(['storage_failed', 'owner_unreachable', 'shutting_down', 'queue_full', 'too_many_agents', 'server_busy'].includes(data.code), `${where}: ${JSON.stringify(data)}`);
			this.world.refused(`prompts ${data.code}`);
		}
	}
}
