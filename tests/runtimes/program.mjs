// What a program does with the client library, in whatever runtime this is: program.mjs URL NAME [URL-OF-SOCKETS]. The token comes in
// HOLDFAST_TOKEN. The last line of stdout is what it saw, as JSON; anything that is not as it should be is thrown.

import { HoldfastClient, HoldfastFeed, completeFiles, createSession, deleteSession, fetchBlob, labelSession, listSessions, search, uploadBlob } from '../../web/client/holdfast-client.js';

const { Deno, process } = globalThis;
const [base, name, bad = base] = Deno?.args ?? process.argv.slice(2);
const token = Deno ? Deno.env.get('HOLDFAST_TOKEN') : process.env.HOLDFAST_TOKEN;
// Node before version 22 has none of its own.
const own = globalThis.WebSocket;
const WebSocket = own ?? (await import('ws')).default;
const server = { base, getToken: async () => token };

function ensure(isTrue, what) {
	if (!isTrue) {
		throw new Error(`not so: ${what}`);
	}
}

/** Waits until it is so, as the client tells of changes. */
function until(client, isTrue, what) {
	return new Promise((resolve, reject) => {
		const late = setTimeout(() => reject(new Error(`waited for ${what}: ${JSON.stringify(client.status)}, ${client.events?.length} events`)), 300_000);
		const look = () => {
			if (isTrue()) {
				clearTimeout(late);
				stop();
				resolve();
			}
		};
		const stop = client.subscribe(look);
		look();
	});
}

const ends = (client) => client.events.filter(({ type }) => type === 'turn_end').length;

const feed = new HoldfastFeed({ ...server, base: bad, WebSocket });
feed.connect();
const { id } = await createSession({ title: `In ${name}` }, server);
const client = new HoldfastClient({ ...server, base: bad, sessionId: id, format: 'both', deltas: 'text', WebSocket });
const seen = [];
const errors = [];
client.on('events', ({ events }) => seen.push(...events.map(({ seq }) => seq)));
client.on('error', ({ error }) => errors.push(error.code));
client.setName(name);
client.connect();
await client.ready();

// Prompts, text that grows, a connection that breaks in it.
let grown = 0;
client.on('open', ({ blocks }) => (grown += blocks.length));
const sent = client.prompt('tour');
client.once('open', () => client.dropConnection());
await sent;
await until(client, () => client.permissions.length > 0, 'a question');
const [{ request_id: request, options }] = client.permissions;
client.answerPermission(request, options[0].option_id);
await until(client, () => ends(client) === 1, 'the end of the first turn');
ensure(client.events.some(({ data }) => data.markdown && data.html), 'both formats');

// The queue, and the cancel.
await client.prompt('permission');
await until(client, () => client.permissions.length > 0, 'another question');
const queued = client.prompt('hello');
ensure((await queued).seq === null, 'it waits');
await until(client, () => client.queue.length === 1, 'the queue');
await client.editPrompt(queued.id, 'plan');
ensure(client.cancel(), 'the cancel is sent');
await until(client, () => ends(client) === 3, 'the turns to end');
ensure(client.transcript.turns.length === 3 && client.transcript.plan, 'the transcript');

// Files and images, search, the list and the feed.
const bytes = new Uint8Array(100_000).map((_, i) => (i * 7) & 255);
const { blob, size } = await uploadBlob(id, bytes, {}, server);
const back = new Uint8Array(await (await fetchBlob(id, blob, {}, server)).arrayBuffer());
ensure(size === bytes.length && back.length === bytes.length && back.every((byte, i) => byte === bytes[i]), 'the blob');
ensure((await completeFiles(id, 'main', {}, server)).files.includes('main.c'), 'files');
ensure((await completeFiles(id, 'none', { limit: 3 }, server)).files.length === 0, 'no files');
let hits = 0;
for await (const found of search('tour', { sessionId: id }, server)) {
	hits += found.length;
}
ensure(hits > 0, 'the search');
await labelSession(id, { title: `Was in ${name}` }, server);
ensure((await listSessions(server)).some(({ title }) => title === `Was in ${name}`), 'the list');
await until(feed, () => feed.sessions.some(({ title }) => title === `Was in ${name}`), 'the feed');

// Who is here; refusals; the iterator; the end.
client.watchPresence();
await until(client, () => client.presence?.people[0]?.name === name, 'presence');
const refused = await labelSession('none', { pinned: true }, server).catch(({ code }) => code);
ensure(refused === 'not_found', 'a refusal has its code');
const iterated = [];
for await (const { seq, type } of client) {
	iterated.push(seq);
	if (seq === client.events.at(-1).seq) {
		break;
	}
}
const other = await createSession({}, server);
const gone = new HoldfastClient({ ...server, sessionId: other.id, WebSocket }).connect();
await gone.ready();
await deleteSession(other.id, server);
await until(gone, () => gone.status.status === 'gone', 'the end of a deleted session');
const { connects } = client.stats;
client.close();
gone.close();
feed.close();
const answer = JSON.stringify({ id, seen, iterated, grown, connects, errors, isOwn: own !== undefined, version: Deno?.version.deno ?? globalThis.Bun?.version ?? process.version });
// A runtime may wait for the other side of a closed socket, on a network that is dead.
console.log(answer);
(Deno?.exit ?? process.exit)(0);
