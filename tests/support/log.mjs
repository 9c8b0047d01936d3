// Reads a session's log as it stands on disk: the truth that every observer is held against.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ask, databaseOf } from './postgres.mjs';
import { assertValid, check } from './schema.mjs';

const CHECKSUM = /,"xxh":"([0-9a-f]{16})"}$/;

/** Takes the checksum off a line: {event, xxh}. */
export function splitLine(line) {
	const match = CHECKSUM.exec(line);
	assert.ok(match, `a line without a checksum: ${line.slice(0, 200)}`);
	return { event: JSON.parse(`${line.slice(0, match.index)}}`), xxh: match[1] };
}

/** The lines of a session's log: of events.jsonl, or with HOLDFAST_TEST_STORE those of the database. */
export function logText(server, sessionId) {
	const host = process.env.HOLDFAST_TEST_STORE;
	if (!host) {
		return readFileSync(join(server.dataDir, 'sessions', sessionId, 'events.jsonl'), 'utf8');
	}
	// As hex digits: psql leaves out characters that it does not take for text.
	const sql = `SELECT encode(convert_to(line || chr(10), 'UTF8'), 'hex') FROM holdfast_event JOIN holdfast_session USING (sid) WHERE id = '${sessionId}' ORDER BY seq`;
	return Buffer.from(ask(host, databaseOf(server.dataDir), sql).replaceAll('\n', ''), 'hex').toString();
}

/**
 * The events of sessions/<id>/events.jsonl, without their checksums, each as the schema says. Asserts
 * that they are numbered from 1 without a gap. A last line without its newline (the server was killed)
 * is no line.
 */
export function readLog(server, sessionId) {
	const text = logText(server, sessionId);
	const events = text.split('\n').slice(0, -1).map((line) => splitLine(line).event);
	assert.deepEqual(events.map((e) => e.seq), events.map((_, i) => i + 1), 'the numbers of the log');
	events.forEach((event) => assertValid(check.event(event)));
	return events;
}

/**
 * The events without the text of messages, which is `markdown` in the log and `html` for most observers:
 * for comparing across formats.
 */
export function withoutText(events) {
	return events.map((event) => {
		if (event.type !== 'agent_message') {
			return event;
		}
		const { html: _h, markdown: _m, context: _c, ...data } = event.data;
		return { ...event, data };
	});
}

/**
 * Asserts that a turn's messages have the whole text. Blank lines behind its last block belong to no event if
 * that has gone out before they came.
 */
export function assertSameText(markdown, text) {
	const at = [...markdown].findIndex((_, i) => markdown[i] !== text[i]);
	const near = (whole) => JSON.stringify(whole.slice(Math.max(0, at - 40), at + 40));
	assert.ok(text.startsWith(markdown), `the text differs at ${at}: ${near(markdown)}, should be ${near(text)}`);
	assert.match(text.slice(markdown.length), /^\s*$/, 'the end is missing');
}

/** The events of a session as the server serves them, at most 5,000, with markdown. */
export async function servedLog(server, id = 's') {
	const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=5000&format=markdown`);
	return body.events;
}

/** The markdown of the agent's messages, of one turn or of all. */
export function markdownOf(events, turn) {
	return events.filter((e) => e.type === 'agent_message' && (turn === undefined || e.turn === turn)).map((e) => e.data.markdown).join('');
}
