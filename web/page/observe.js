/** The wall: many sessions at once, live. Each has a tile; only visible tiles are connected. */
import { HoldfastFeed } from '../client/holdfast-client.js';
import { Attention, registerWorker } from './attention.js';
import { $, drawIcons } from './dom.js';
import { Gate } from './gate.js';
import { Tile } from './tile.js';
import { sessionTitle } from './sessions.js';

const TILES_MAX = 60; // the newest; browsers open at most about 200 sockets to one server

const attention = new Attention((id) => {
	location.href = `./#/s/${encodeURIComponent(id)}`;
});
const feed = new HoldfastFeed();
/** @type {Map<string, Tile>} */
const tiles = new Map();
/** @type {any[]} */
let sessions = [];
let filter = { words: '', status: 'all' };

const sight = new IntersectionObserver(
	(entries) =>
		entries.forEach(({ target, isIntersecting }) =>
			tiles
				.get(/** @type {HTMLElement} */ (target).dataset.sessionId ?? '')
				?.setSeen(isIntersecting),
		),
	{ root: $('#wall'), rootMargin: '200px' },
);

/** @param {any} session */
function isWanted(session) {
	const busy = session.status === 'running' || session.status === 'waiting';
	const fits =
		filter.status === 'all' || (filter.status === 'busy' ? busy : session.status === 'waiting');
	return fits && sessionTitle(session).toLowerCase().includes(filter.words);
}

/** The newest session comes first. Activity never moves a tile. */
function show() {
	const wanted = sessions
		.filter(isWanted)
		.sort((a, b) => b.created_at - a.created_at || (a.id < b.id ? -1 : 1))
		.slice(0, TILES_MAX);
	const ids = new Set(wanted.map(({ id }) => id));
	for (const [id, tile] of tiles) {
		if (!ids.has(id)) {
			sight.unobserve(tile.element);
			tile.close();
			tiles.delete(id);
		}
	}
	wanted.forEach((session, i) => place(session, i));
	sayHowMany(wanted.length);
}

/** @param {any} session @param {number} at */
function place(session, at) {
	const wall = $('#wall');
	const known = tiles.get(session.id);
	const tile = known ?? new Tile(session, (reason) => void gate.lock(reason));
	tiles.set(session.id, tile);
	if (wall.children[at] !== tile.element) {
		wall.insertBefore(tile.element, wall.children[at] ?? null);
	}
	if (known) {
		tile.show(session);
	} else {
		sight.observe(tile.element);
	}
}

/** @param {number} shown */
function sayHowMany(shown) {
	const count = (/** @type {string} */ status) =>
		sessions.filter((session) => session.status === status).length;
	const all = sessions.length === 1 ? 'One session' : `${sessions.length} sessions`;
	const waiting = count('waiting');
	const words = [
		all,
		`${count('running')} running`,
		waiting > 0 && `${waiting} waiting for an answer`,
	];
	$('#count').textContent = sessions.length > 0 ? words.filter(Boolean).join(', ') : '';
	document.title = waiting > 0 ? `${waiting} waiting · Holdfast` : 'All sessions · Holdfast';
	$('#nothing').hidden = shown > 0;
	$('#nothing').textContent =
		sessions.length === 0
			? 'No sessions yet. They appear here when they start.'
			: 'No matching sessions.';
}

function start() {
	drawIcons();
	registerWorker();
	$('#filter').addEventListener('input', () => {
		filter = {
			words: $('#filter-words').value.trim().toLowerCase(),
			status: $('#filter').elements.status.value,
		};
		show();
	});
	$('#filter').addEventListener('submit', (/** @type {Event} */ event) => event.preventDefault());
	feed.on('sessions', (detail) => {
		sessions = detail.sessions;
		attention.show(sessions);
		show();
	});
	feed.on('status', ({ status, reason }) => {
		if (status === 'unauthorized') {
			attention.clear();
			void gate.lock(reason);
		}
		const lost = status === 'retrying' || status === 'offline';
		$('#feed-status').textContent = lost ? 'The list is not being updated at the moment.' : '';
	});
}

const gate = new Gate({
	start: () => feed.connect(),
	resume: () => location.reload(),
	isLive: () => feed.status.status === 'live',
	tell: (message) => {
		$('#feed-status').textContent = message;
	},
});
start();
