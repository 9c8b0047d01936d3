/**
 * Lets the page open while the server cannot be reached, shows push messages, and brings the reader to the page from a notification. Keeps the page's own files
 * only; of sessions it sees the titles that the page keeps, for push messages.
 */
const CACHE = 'holdfast-page';
const PAGES = ['./', 'observe.html'];
const HASHED = /-[0-9a-f]{16}\.\w+$/;
const OTHER = /^(page\/[\w-]+\.(svg|png)|holdfast\.webmanifest)$/; // the unbundled page's modules are not kept
const KEPT_MAX = 150; // files; the ones kept for longest go
const SLOW_MS = 5000; // then what is kept is better than nothing

/** What a page names: all that it needs if it is bundled, also what it loads later. */
function cited(html) {
	return [...html.matchAll(/(?:src|href)="([^"#:?]+\.(?:js|css|svg|png|webmanifest))"/g)].map(([, path]) => path);
}

async function keepPage(cache, path) {
	const answer = await fetch(path, { cache: 'no-cache' });
	if (answer.ok) {
		await Promise.all([cache.put(path, answer.clone()), keepCited(cache, answer)]);
	}
}

/** @param {Response} page */
async function keepCited(cache, page) {
	const paths = cited(await page.text());
	await Promise.all(paths.map(async (path) => (await cache.match(path)) ?? cache.add(path).catch(() => {})));
}

self.addEventListener('install', (event) => {
	self.skipWaiting();
	event.waitUntil(caches.open(CACHE).then((cache) => Promise.all(PAGES.map((path) => keepPage(cache, path).catch(() => {})))));
});

async function shorten(cache) {
	const kept = await cache.keys();
	await Promise.all(kept.slice(0, Math.max(0, kept.length - KEPT_MAX)).map((request) => cache.delete(request)));
}

async function fromNetwork(request, key, event) {
	// A request of its own for a page: one that another site's link has caused would be refused as that site's.
	const answer = await (request.mode === 'navigate' ? fetch(key, { redirect: 'manual' }) : fetch(request));
	if (answer.ok && answer.type === 'basic') {
		const copy = answer.clone();
		const cache = await caches.open(CACHE);
		if (request.mode === 'navigate') {
			event.waitUntil(keepCited(cache, answer.clone())); // a new page may name files that only a click would load
		}
		await cache.put(key, copy);
		await shorten(cache);
	}
	return answer;
}

async function answer(request, event) {
	const { origin, pathname } = new URL(request.url);
	const key = origin + pathname;
	const kept = await caches.match(key);
	if (kept && HASHED.test(pathname)) {
		return kept;
	}
	const fresh = fromNetwork(request, key, event);
	event.waitUntil(fresh.catch(() => {}));
	if (!kept) {
		return fresh;
	}
	const late = new Promise((resolve) => setTimeout(resolve, SLOW_MS, kept));
	return Promise.race([fresh.catch(() => kept), late]);
}

self.addEventListener('fetch', (event) => {
	const { method, mode, url } = event.request;
	const base = new URL('./', self.location.href).href;
	const path = new URL(url).href.slice(base.length).replace(/[?#].*/, '');
	const isPage = mode === 'navigate' && /^(index\.html|observe\.html)?$/.test(path);
	if (method === 'GET' && url.startsWith(base) && (isPage || HASHED.test(path) || OTHER.test(path))) {
		event.respondWith(answer(event.request, event));
	}
});

/** What the page says too, when it is open and nobody looks (page/attention.js). */
const NEWS = { waiting: 'is waiting for you', idle: 'has finished' };
const OVER = 'has its answer';
const OVER_MS = 1500;
const ID = /^[\w-][\w.-]{0,127}$/;

/** The title that the page keeps of a session (client/list-cache.js); '': none. */
function titleOf(session) {
	return new Promise((resolve, reject) => {
		const opening = indexedDB.open('holdfast');
		opening.onupgradeneeded = () => opening.transaction.abort(); // there is none
		opening.onerror = reject;
		opening.onsuccess = () => {
			const database = opening.result;
			const all = database.transaction('sessions').objectStore('sessions').getAll();
			all.onerror = reject;
			all.onsuccess = () => {
				database.close();
				const lists = all.result.map(({ list }) => JSON.parse(list ?? '[]'));
				resolve(lists.flat().find(({ id }) => id === session)?.title ?? '');
			};
		};
	});
}

self.addEventListener('push', (event) => event.waitUntil(tell(event.data)));

/** @param {PushMessageData | null} data of this server, unless the push service makes some up */
function read(data) {
	try {
		return data?.json();
	} catch {
		return null;
	}
}

/** Browsers want each message to be shown, unless the page is in front. */
async function tell(data) {
	const open = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
	const isInFront = open.some(({ visibilityState }) => visibilityState === 'visible');
	const { session, kind, question } = read(data) ?? {};
	if (typeof session !== 'string' || !ID.test(session) || (kind !== 'over' && !Object.hasOwn(NEWS, kind))) {
		return;
	}
	const [said] = await self.registration.getNotifications({ tag: session });
	const show = (title, options) => self.registration.showNotification(title, { tag: session, icon: 'page/icon-512.png', data: { session, kind, question }, ...options });
	const name = (await titleOf(session).catch(() => '')) || `Session ${session.slice(0, 8)}`;
	if (kind === 'over') {
		await (isInFront ? said?.close() : takeBack(session, () => show(`${name} ${OVER}`, { silent: true })));
	} else if (!isInFront) {
		// The page may have said it before.
		const isSaid = said?.data?.kind === kind && said.data.question === question;
		await show(`${name} ${NEWS[kind]}`, { renotify: Boolean(said) && !isSaid });
	}
}

/** What was said is not so any more. A browser counts a message of which nothing is to be seen against us: so it is seen for a moment, without a sound. */
async function takeBack(session, show) {
	await show();
	setTimeout(async () => {
		const left = await self.registration.getNotifications({ tag: session });
		left.filter(({ data }) => data?.kind === 'over').forEach((notification) => notification.close());
	}, OVER_MS);
}

self.addEventListener('notificationclick', (event) => {
	const { session } = event.notification.data ?? {};
	event.notification.close();
	event.waitUntil(show(session));
});

async function show(session) {
	const open = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
	const page = open.find(({ url }) => !url.includes('observe.html'));
	if (page) {
		await page.focus().catch(() => {}); // only after a click on a notification
		page.postMessage({ open: session });
	} else {
		await self.clients.openWindow(`./#/s/${encodeURIComponent(session)}`);
	}
}
