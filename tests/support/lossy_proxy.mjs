// Stands between a producer and the server and loses requests, and answers, for a living.

import http from 'node:http';
import { once } from 'node:events';
import { defer } from './wait.mjs';

/** Answers that take the place of a relayed one. */
const LOST_REQUEST = 1;
const LOST_ANSWER = 2;
const BUSY = 3;

export const fate = { LOST_REQUEST, LOST_ANSWER, BUSY };

export class LossyProxy {
	#upstream;
	#decide;
	/** How many requests came. */
	count = 0;

	/** `decide(n)`: what becomes of the n-th request (from 1): one of `fate`, or nothing. */
	static async start(t, upstream, decide) {
		const proxy = new LossyProxy();
		proxy.#upstream = upstream;
		proxy.#decide = decide;
		const server = http.createServer((request, response) =>
			proxy.#handle(request, response).catch((error) => response.destroy(error)));
		server.listen(0, '127.0.0.1');
		await once(server, 'listening');
		proxy.url = `http://127.0.0.1:${server.address().port}`;
		defer(t, () => new Promise((resolve) => {
			server.close(resolve);
			server.closeAllConnections();
		}));
		return proxy;
	}

	async #handle(request, response) {
		const parts = [];
		for await (const part of request) {
			parts.push(part);
		}
		const what = this.#decide(++this.count);
		if (what === LOST_REQUEST) {
			response.destroy();
			return;
		}
		if (what === BUSY) {
			response.writeHead(503, { 'Content-Type': 'application/json' });
			response.end('{"error": {"code": "shutting_down", "message": "the server is going away"}}');
			return;
		}
		const answer = await fetch(this.#upstream + request.url, {
			method: request.method,
			headers: { 'Content-Type': request.headers['content-type'], Authorization: request.headers.authorization ?? '' },
			body: Buffer.concat(parts),
		});
		const text = await answer.text();
		if (what === LOST_ANSWER) {
			response.destroy();
			return;
		}
		response.writeHead(answer.status, { 'Content-Type': 'application/json' });
		response.end(text);
	}
}
