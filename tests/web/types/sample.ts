// Uses every part of the declarations; only ever compiled (types.test.mjs).

import {
	HoldfastClient,
	HoldfastError,
	HoldfastFeed,
	checkLogin,
	createSession,
	currentLogin,
	deleteSession,
	forgetLogin,
	isLoginWith,
	listSessions,
	login,
	logout,
	type Activity,
	type Agent,
	type ClientOptions,
	type ConfigOption,
	type ConnectionStats,
	type HoldfastEvent,
	type Login,
	type OpenBlock,
	type PendingPrompt,
	type QueuedPrompt,
	type ResetNotice,
	type SessionInfo,
	type SessionState,
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
const id: string = client.prompt('hello', { promptId: 'p-1' });
const sent: boolean = client.cancel() && client.loadOlder(100);
client.answerPermission('r', 'yes');
const dropped: number = client.dropOlder(200);
client.on('agent', ({ agent }) => agent.commands.map(({ name }) => name));
const asked: boolean = client.setMode('plan') || client.setConfigOption('model', 'large') || client.setConfigOption('fast', true);
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

const feed = new HoldfastFeed({ base: '/' });
feed.on('sessions', ({ sessions }) => sessions.map((session: SessionInfo) => session.title));
feed.on('status', ({ status }) => status);
feed.connect();
console.log(feed.sessions.length, feed.status.status);
feed.close();
const made: SessionInfo = await createSession({ title: 'x' }, 'http://localhost');
await deleteSession(made.id);
const all: SessionInfo[] = await listSessions();
console.log(all, new HoldfastError('code', 'words', {}));

async function logIn(): Promise<void> {
	const made: Login = await login('token');
	const { role, sub, expires_at } = await checkLogin({ token: 'token' });
	console.log(made.login, role, sub, expires_at, currentLogin()?.sub, await isLoginWith('token'));
	await createSession({}, { base: 'http://localhost', getToken: () => 'token' });
	await forgetLogin({ keepCache: true });
	await logout();
}
void logIn;
