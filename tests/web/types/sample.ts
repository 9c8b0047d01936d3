// Uses every part of the declarations; only ever compiled (types.test.mjs).

import { AgUiFold, agUiEvents } from 'holdfast-client/ag-ui';
import {
	HoldfastClient,
	HoldfastError,
	HoldfastFeed,
	TranscriptModel,
	checkLogin,
	getPush,
	setPush,
	createSession,
	currentLogin,
	deleteSession,
	labelSession,
	listAgents,
	listDirectories,
	forgetLogin,
	isLoginWith,
	listSessions,
	login,
	logout,
	search,
	uploadBlob,
	fetchBlob,
	completeFiles,
	type FileList,
	type BlobInfo,
	toolState,
	type Activity,
	type Agent,
	type ClientOptions,
	type ConfigOption,
	type ConnectionStats,
	type HoldfastEvent,
	type Item,
	type ItemView,
	type Login,
	type OpenBlock,
	type OpenPermission,
	type PendingPrompt,
	type Person,
	type PlanEntry,
	type Presence,
	type PromptPromise,
	type QueuedPrompt,
	type ResetNotice,
	type SearchHit,
	type SessionInfo,
	type SessionState,
	type Turn,
} from 'holdfast-client';

const options: ClientOptions = {
	sessionId: 's',
	base: new URL('http://localhost/'),
	WebSocket,
	format: 'both',
	deltas: 'html',
	clientId: 'tab-1',
	maxEvents: 1000,
	catchUpMax: 5000,
	cache: { name: 'x', maxEvents: 10, maxChars: 1e6, maxSessions: 3 },
	identity: 'ann',
	getToken: async () => 'token',
	storage: localStorage,
	indexedDB,
	IDBKeyRange,
	timers: { setTimeout, clearTimeout, now: Date.now },
	fetch,
	random: Math.random,
	page: window,
	inspect: (direction, text) => console.log(direction === 'in' ? '<' : '>', text.length),
};

const client = new HoldfastClient(options);
const stop: () => void = client.on('events', ({ events, cached }) => {
	const first: HoldfastEvent | undefined = events[0];
	console.log(first?.seq, first?.type === 'plan' && first.data.entries, cached === true);
});
client.on('older', ({ events, hasOlder }) => console.log(events.length, hasOlder));
client.on('trimmed', ({ count }) => console.log(count + 1));
client.on('reset', ({ reason }) => console.log(reason === 'epoch'));
client.on('open', ({ blocks }) => blocks.map((block: OpenBlock) => block.html ?? block.text));
client.on('activity', ({ held }) => held.map((notice: Activity) => notice.seq));
client.on('prompts', ({ prompts }) => prompts.map((prompt: PendingPrompt) => prompt.state === 'queued'));
client.on('queue', ({ queue }) => queue.map((prompt: QueuedPrompt) => prompt.edited === true));
client.on('presence', ({ presence }: { presence: Presence | null }) => presence?.people.map((person: Person) => person.name ?? person.sub ?? person.client_id));
client.setName('Ann');
client.setName(null);
client.watchPresence();
client.watchPresence(false);
const here: number | undefined = client.presence?.count;
console.log(here);
client.on('state', (state: SessionState) => state.usage?.used);
client.on('status', ({ status, delayMs, retryAt, reason }) => [status === 'live', delayMs, retryAt, reason]);
client.on('error', ({ error }) => error instanceof HoldfastError && error.code + error.detail.request);
// @ts-expect-error there is no such event
client.on('nothing', () => {});
// @ts-expect-error events are not to be changed
client.on('events', ({ events }) => (events[0]!.seq = 3));
// @ts-expect-error the session must be named
new HoldfastClient({});

client.connect();
const sending: PromptPromise = client.prompt('hello', { promptId: 'p-1' });
const id: string = sending.id;
console.log((await sending).seq, (await client.ready()) === client);
client.once('state', ({ status }) => console.log(status));
client.subscribe(() => console.log(client.transcript.turns.length))();

/** A discriminated union: what a type has is known after one comparison. */
function wordsOf(event: HoldfastEvent): string {
	switch (event.type) {
		case 'user_prompt':
			return event.data.message;
		case 'plan':
			return event.data.entries.map(({ content }) => content).join();
		case 'turn_end': {
			const reason: string = event.data.stop_reason;
			return reason;
		}
		case 'permission_request':
			return event.data.options[0]?.option_id ?? '';
		case 'tool_call': {
			const title: string = event.data.title;
			return title;
		}
		case 'tool_call_update': {
			// @ts-expect-error an update need not have a title
			const title: string = event.data.title;
			return title;
		}
		default:
			return event.type;
	}
}
function isNever(event: HoldfastEvent): void {
	// @ts-expect-error there is no such type
	console.log(event.type === 'agent_mesage', wordsOf(event));
	if (event.type === 'plan') {
		// @ts-expect-error narrowed: it is no other type any more
		console.log(event.type === 'usage');
	}
}
console.log(isNever);
const asking: OpenPermission | undefined = client.permissions[0];
const turn: Turn | undefined = client.transcript.turns[0];
const view: ItemView | undefined = turn?.items[0];
const plan: readonly PlanEntry[] | null = client.transcript.plan;
console.log(asking?.options[0]?.name, view?.state.title, plan?.[0]?.content, turn?.prompt?.data.message);
// @ts-expect-error snapshots are not to be changed
client.prompts.pop();
const sent: boolean = client.cancel() && client.loadOlder(100);
client.answerPermission('r', 'yes');
for (const { request_id, mode, requested_schema } of client.elicitations) {
	client.answerElicitation(request_id, 'accept', mode === 'form' && requested_schema ? { name: 'x' } : undefined);
}
const dropped: number = client.dropOlder(200);
client.on('agent', ({ agent }) => agent.commands.map(({ name }) => name));
const asked: boolean = client.setMode('plan') || client.setModel('opus') || client.setConfigOption('model', 'large') || client.setConfigOption('fast', true);
client.authenticate('oauth');
const { current_mode, modes, config_options }: Agent = client.agent;
const option: ConfigOption | undefined = config_options[0];
console.log(asked, current_mode ?? modes[0]?.id, option?.options);
const whole: QueuedPrompt[] = await client.listPrompts({ promptId: 'p-1' });
await client.editPrompt('p-1', whole[0]!.message);
const { duplicate } = await client.removePrompt(client.queue[0]?.prompt_id ?? 'p-1');
console.log(duplicate, (await client.listPrompts()).length, client.state.queue.length);
client.retryNow();
client.dropConnection();
const { epoch, seq } = client.position;
const stats: ConnectionStats = client.stats;
console.log(id, sent, dropped, epoch?.length, seq + 1, stats.lag, client.sessionId, client.clientId);
console.log(client.events.length, client.hasOlder, client.open, client.prompts, client.state, client.status);

for await (const event of client) {
	const item: HoldfastEvent | ResetNotice = event;
	console.log('reason' in item ? item.reason : item.ts);
}
stop();
client.close();

const model = new TranscriptModel(client.events);
const newest: Item | undefined = model.items.at(-1);
console.log(newest && toolState(newest), newest && model.before(newest)?.kind);

const feed = new HoldfastFeed({ base: '/', cache: true });
feed.on('sessions', ({ sessions }) => sessions.map((session: SessionInfo) => session.title));
feed.on('status', ({ status }) => status);
feed.connect();
console.log(feed.sessions.length, feed.status.status, feed.isKept, feed.subscribe);
feed.once('sessions', ({ sessions }) => sessions.length);
feed.close();
const made: SessionInfo = await createSession({ title: 'x' }, 'http://localhost');
const agents: string[] = (await listAgents()).map(({ name, roots }) => `${name} ${roots?.[0]}`);
const paths: string[] = (await listDirectories({ agent: agents[0] as string, path: '/home/' })).directories;
const labelled: SessionInfo = await labelSession(made.id, { title: null, archived: true });
console.log(labelled.title);
await deleteSession(made.id);
const all: SessionInfo[] = await listSessions();
for await (const hits of search('cursor', { sessionId: made.id, limit: 20 })) {
	console.log(hits.map(({ session_id, seq, type, ts, snippet }: SearchHit) => [session_id, seq, type, ts, snippet]));
}
const image: BlobInfo = await uploadBlob(made.id, new Uint8Array([1, 2, 3]));
const shown: Blob = await fetchBlob(made.id, image.blob);
client.prompt('What is this?', { content: [{ type: 'image', blob: image.blob }, { type: 'resource_link', uri: 'file:///a', name: 'a' }] });
// @ts-expect-error an image is a blob
client.prompt('What is this?', { content: [{ type: 'image', uri: 'file:///a' }] });
const typed: FileList = await client.completeFiles('src/ma', { limit: 20, signal: new AbortController().signal });
console.log(typed.files.length, typed.cwd?.length, (await completeFiles(made.id)).has_more, (await completeFiles({ cwd: '/srv' }, 'src/')).files);
console.log(shown.size, image.mime_type);
console.log(all, new HoldfastError('code', 'words', {}));

async function logIn(): Promise<void> {
	const made: Login = await login('token');
	const { key, subscribed } = await getPush();
	await setPush(key && !subscribed ? await (await navigator.serviceWorker.ready).pushManager.subscribe({ applicationServerKey: key }) : null);
	const { role, sub, expires_at } = await checkLogin({ token: 'token' });
	console.log(made.login, role, sub, expires_at, currentLogin()?.sub, await isLoginWith('token'));
	await createSession({}, { base: 'http://localhost', getToken: () => 'token' });
	await forgetLogin({ keepCache: true });
	await logout();
}
void logIn;

/** The runs that have ended, until the client is closed. */
export async function endedRuns(from: HoldfastClient): Promise<string[]> {
	const ended: string[] = [];
	for await (const event of agUiEvents(from, { afterRun: ended.at(-1) })) {
		if (event.type === 'RUN_FINISHED') {
			ended.push(`${event.runId}: ${event.result.stop_reason}`);
		}
	}
	return ended;
}

const fold = new AgUiFold({ threadId: 's' });
export const types: string[] = fold.reset('epoch').map(({ type }) => type);
export const questions: string[] = Object.keys(fold.state.permissions);
