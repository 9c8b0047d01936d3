// The three sockets of the server under test, octet by octet: what a case sends, and the transcript of what comes back.

import assert from 'node:assert/strict';
import { BINARY, CLOSE, PING, PONG, RawSocket, TEXT, closing, frame, upgrade, upgradeFault } from './raw_socket.mjs';

/** name, path, and the largest message by default. */
export const SOCKETS = [
	{ name: '/ws', path: '/api/sessions/one/ws', limit: 1 << 20 },
	{ name: '/produce', path: '/api/sessions/one/produce', limit: 8 << 20 },
	{ name: '/api/events', path: '/api/events', limit: 1 << 20 },
];

/** What every socket answers with `keepalive_ack` and the same number; padded with blanks to `size` octets. */
export function keepalive(n, size = 0) {
	return JSON.stringify({ type: 'keepalive', data: { client_time: n } }).padEnd(size, ' ');
}

/** Connects and takes the first frame, which the server sends by itself. */
export async function open(t, server, path, { behind = '', step = 0 } = {}) {
	const socket = await RawSocket.connect(t, server);
	await socket.send(Buffer.concat([Buffer.from(upgrade(path)), Buffer.from(behind)]), step);
	assert.equal(upgradeFault(await socket.answer()), null);
	const hello = await takeFrame(socket);
	assert.match(hello, /^text (connected|sessions)$/);
	return socket;
}

/** The next frame of the server in words; asserts that it is one that a server may send. */
async function takeFrame(socket) {
	const { fin, rsv, opcode, masked, payload } = await socket.frame();
	assert.deepEqual({ fin, rsv, masked }, { fin: true, rsv: 0, masked: false });
	if (opcode === TEXT) {
		const { type, data } = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(payload));
		return type === 'keepalive_ack' ? `ack ${data.client_time}` : type === 'error' ? `error ${data.code}` : `text ${type}`;
	}
	assert.ok(payload.length <= 125, 'a control frame of more than 125 octets');
	if (opcode === CLOSE) {
		assert.notEqual(payload.length, 1);
		new TextDecoder('utf-8', { fatal: true }).decode(payload.subarray(2));
		return payload.length === 0 ? 'close' : `close ${payload.readUInt16BE()}`;
	}
	assert.ok(opcode === PING || opcode === PONG, `opcode ${opcode}`);
	return `${opcode === PING ? 'ping' : 'pong'} ${payload.toString('latin1')}`;
}

/** Frames until the close frame, which is answered, and the end of the connection: {data, pongs, close}. */
export async function transcript(socket, answered) {
	const heard = { data: [], pongs: [], close: null };
	while (heard.close === null) {
		const words = await takeFrame(socket);
		if (words.startsWith('close')) {
			heard.close = words;
		} else if (!words.startsWith('ping')) {
			heard[words.startsWith('pong') ? 'pongs' : 'data'].push(words.replace(/^pong /, ''));
		}
	}
	if (!answered) {
		const code = Number(heard.close.slice(6) || 1000);
		await socket.send(frame(CLOSE, closing(code)));
	}
	assert.equal(await socket.waitEnd(), '', 'nothing comes behind a close frame');
	return heard;
}

const LAST = 987_654;

/**
 * Sends `send` (an array of frames) in pieces of `step` octets and holds what comes against the case: `data` (acks and errors) and
 * `pongs` in order, and `close`, the code that the server must close with. Without `close` the connection must go on: it is asked
 * once more, closed with 1000, and answered so. `answers`: `send` ends with a close frame of ours, and this is the answer.
 */
export async function runWsCase(t, server, path, { send, data = [], pongs = [], close, answers }, step = 0) {
	const socket = await open(t, server, path);
	const goesOn = close === undefined && answers === undefined;
	const bytes = Buffer.concat(send);
	await socket.send(bytes, step);
	if (goesOn) {
		await socket.send(Buffer.concat([frame(TEXT, keepalive(LAST)), frame(CLOSE, closing(1000))]));
	}
	const heard = await transcript(socket, close === undefined);
	if (goesOn) {
		assert.deepEqual(heard, { data: [...data, `ack ${LAST}`], pongs, close: 'close 1000' });
	} else if (close !== undefined) {
		// The last word before a close by the server may be an `error` that says why.
		const said = heard.data.length > data.length && heard.data.at(-1).startsWith('error') ? heard.data.slice(0, -1) : heard.data;
		assert.deepEqual({ ...heard, data: said }, { data, pongs, close: `close ${close}` });
	} else {
		assert.ok([answers].flat().includes(heard.close), `closed with "${heard.close}", not "${answers}"`);
		assert.deepEqual([heard.data, heard.pongs], [data, pongs]);
	}
}

export { BINARY, CLOSE, PING, PONG, TEXT, closing, frame };
