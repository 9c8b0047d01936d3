// A chat of the AI SDK, with the package's own transports and its own state machine, unchanged: what useChat() is without React.

import { AbstractChat, DefaultChatTransport, WebSocketChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai';
import WebSocket from 'ws';
import { authOf, trustOf } from './auth.mjs';
import { TestSocket } from './socket.mjs';
import { Waiters, defer } from './wait.mjs';

const DEFAULT_MS = 30_000;

class State {
	#waiters;
	#values = { status: 'ready', error: undefined, messages: [] };

	constructor(waiters, messages) {
		this.#waiters = waiters;
		this.#values.messages = messages;
		for (const name of ['status', 'error', 'messages']) {
			Object.defineProperty(this, name, { get: () => this.#values[name], set: (value) => this.#set(name, value) });
		}
	}

	#set(name, value) {
		this.#values[name] = value;
		this.#waiters.wake();
	}

	pushMessage = (message) => (this.messages = [...this.messages, message]);
	popMessage = () => (this.messages = this.messages.slice(0, -1));
	replaceMessage = (at, message) => (this.messages = this.messages.with?.(at, structuredClone(message)) ?? this.messages.map((each, i) => (i === at ? structuredClone(message) : each)));
	snapshot = (value) => structuredClone(value);
}

export class Chat extends AbstractChat {
	#waiters;
	errors = [];

	constructor({ waiters = new Waiters(), errors = [], ...init }) {
		super({ ...init, state: new State(waiters, init.messages ?? []), onError: (error) => errors.push(error) });
		this.#waiters = waiters;
		this.errors = errors;
	}

	/** Waits until `probe`, asked after each change, gives something true. */
	until(probe, what = String(probe), ms = DEFAULT_MS) {
		return this.#waiters.until(probe, ms, () => `${what}; ${this.status}, ${JSON.stringify(this.messages).slice(0, 1500)} ${this.errors}`);
	}

	/** The text of the last message. */
	get text() {
		return textOf(this.messages.at(-1));
	}
}

export const textOf = (message) => message.parts.filter(({ type }) => type === 'text').map(({ text }) => text).join('');

/** The transport of a kind: 'websocket' or 'http'. */
export function transportOf(server, id, kind, { headers = authOf(server.url), ...more } = {}) {
	const path = `/api/ai/${id}`;
	if (kind === 'http') {
		return new DefaultChatTransport({ api: server.url + path, headers, ...more });
	}
	const webSocket = class extends WebSocket {
		constructor(url, protocols) {
			super(url, protocols, { headers, ...trustOf(server.url) });
		}
	};
	return new WebSocketChatTransport({ url: server.url + path, webSocket, ...more });
}

/** A chat with a session; `messages` are those that an application has kept. */
export function openChat(t, server, id, { kind = 'websocket', messages = [], approves = true, ...options } = {}) {
	const transport = transportOf(server, id, kind, options);
	const chat = new Chat({ id: `chat-of-${id}`, transport, messages, ...(approves && { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses }) });
	chat.transport_ = transport;
	defer(t, () => transport.close?.());
	return chat;
}

/** Sends `cancel`, as docs/ai-sdk.md has it, for the last of these messages; whether there was something to cancel. */
export async function cancelChat(t, server, id, messages = [], options = {}) {
	const socket = new TestSocket(t, server.ws(`/api/ai/${id}`), () => null, options);
	await socket.sendRaw(JSON.stringify({ type: 'cancel', requestId: 'cancel', messages: messages.slice(-1) }));
	const { type, errorText } = await socket.waitFor(({ requestId }) => requestId === 'cancel');
	if (type === 'error') {
		throw new Error(errorText);
	}
	return type === 'end';
}
