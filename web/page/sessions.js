/** The list of sessions in the sidebar. */
import { h, icon, lookUp, morph, morphAttributes } from './dom.js';
import { countDirectories, filterSessions, groupSessions, sessionTitle } from './session-groups.js';
import { SessionMenu } from './session-menu.js';

export { sessionTitle } from './session-groups.js';

const STATUS_WORDS = { running: 'Running', waiting: 'Waiting', idle: '' };
const FILTER_FROM = 6; // sessions; fewer can be seen at once
const ORDER = 'holdfast session order';

/** @param {number} ms @param {number} now */
function formatAge(ms, now) {
	const minutes = Math.floor((now - ms) / 60_000);
	if (minutes < 1) {
		return 'now';
	}
	if (minutes < 60) {
		return `${minutes}m`;
	}
	return minutes < 24 * 60
		? `${Math.floor(minutes / 60)}h`
		: `${Math.floor(minutes / (24 * 60))}d`;
}

export class SessionList {
	#list;
	#empty;
	#filter;
	#menu;
	#isGoing;
	/** By session id, or by the name of a group. @type {Map<string, HTMLElement>} */
	#rows = new Map();
	/** What each row shows, so that those without news are left alone. @type {Map<string, string>} */
	#shown = new Map();
	/** @type {any[]} */
	#sessions = [];
	/** @type {string | null} */
	#selected = null;
	#showsArchive = false;
	#order;
	#hasDirectories = readOrder();
	/** A click may follow: rows stay in place. */
	#pointer = { isOver: false, isPressed: false };
	/** The session relabelled here: shown at once. @type {string | null} */
	#ours = null;

	/**
	 * @param {{list: HTMLElement, empty: HTMLElement, filter: HTMLInputElement, order: HTMLElement}} elements order: the button between days and directories
	 * @param {{take: (action: any, session: any) => void, isGoing: (id: string) => boolean}} handlers isGoing: not shown
	 */
	constructor({ list, empty, filter, order }, { take, isGoing }) {
		this.#list = list;
		this.#empty = empty;
		this.#filter = filter;
		this.#isGoing = isGoing;
		this.#menu = new SessionMenu((action, session) => {
			this.#ours = session.id;
			take(action, this.find(session.id) ?? session);
		});
		list.addEventListener('click', ({ target }) => this.#handleClick(/** @type {HTMLElement} */ (target)));
		this.#order = order;
		filter.addEventListener('input', () => this.render());
		order.addEventListener('click', () => {
			this.#hasDirectories = !this.#hasDirectories;
			keepOrder(this.#hasDirectories);
			this.render();
		});
		setInterval(() => this.#refresh(), 60_000); // ages
		this.#watchPointer();
	}

	#watchPointer() {
		const end = () => {
			this.#pointer.isPressed = false;
			this.#refresh();
		};
		this.#list.addEventListener('pointerenter', ({ pointerType }) => (this.#pointer.isOver = pointerType !== 'touch'));
		this.#list.addEventListener('pointerleave', () => {
			this.#pointer.isOver = false;
			this.#refresh();
		});
		this.#list.addEventListener('pointerdown', () => (this.#pointer.isPressed = true));
		// After a click that may follow.
		['pointerup', 'pointercancel'].forEach((type) => addEventListener(type, () => this.#pointer.isPressed && setTimeout(end)));
	}

	#handleClick(/** @type {HTMLElement} */ target) {
		const opener = /** @type {HTMLElement | null} */ (target.closest('[data-testid="session-menu"]'));
		const session = opener && this.find(opener.closest('li')?.dataset.sessionId ?? null);
		if (session) {
			this.#menu.show(session, opener);
		} else if (target.closest('[data-testid="show-archive"]')) {
			this.#showsArchive = !this.#showsArchive;
			this.render();
		}
	}

	/** @param {any[]} sessions */
	show(sessions) {
		const labelsOf = (/** @type {any} */ of) => JSON.stringify([of?.title, of?.archived, of?.pinned]);
		const before = this.#ours === null ? null : labelsOf(this.find(this.#ours));
		this.#sessions = sessions;
		if (before !== null && labelsOf(this.find(this.#ours)) !== before) {
			this.#ours = null;
			this.render();
		} else {
			this.#refresh();
		}
	}

	/** @param {string | null} id */
	select(id) {
		this.#selected = id;
		this.render();
	}

	/** @param {string | null} id */
	find(id) {
		return this.#sessions.find((session) => session.id === id) ?? null;
	}

	/** Changes by others move no row under the pointer. */
	#refresh() {
		this.render(this.#pointer.isOver || this.#pointer.isPressed);
	}

	/** @param {boolean} [stays] rows stay where they are; what is new comes behind them */
	render(stays = false) {
		const now = Date.now();
		const there = this.#sessions.filter(({ id }) => !this.#isGoing(id));
		const words = this.#filter.value.trim();
		const found = words ? filterSessions(there, words) : there;
		/** @type {HTMLElement[]} */
		const rows = [];
		const canChoose = countDirectories(there) > 1;
		for (const group of groupSessions(found, now, canChoose && this.#hasDirectories)) {
			const { key, sessions } = group;
			const isFolded = key === 'Archive' && !this.#showsArchive && !words;
			rows.push(this.#headOf(group, isFolded));
			const visible = isFolded ? sessions.filter(({ id }) => id === this.#selected) : sessions;
			rows.push(...visible.map((session) => this.#rowOf(session, now)));
		}
		this.#place(stays ? this.#inPlace(rows) : rows, rows);
		this.#filter.hidden = there.length < FILTER_FROM && !words;
		this.#order.hidden = !canChoose;
		this.#order.setAttribute('aria-pressed', String(this.#hasDirectories));
		this.#empty.hidden = rows.length > 0;
		this.#empty.textContent = words ? 'No matching sessions.' : 'No sessions yet.';
	}

	/** The rows in their current order, then new ones. @param {HTMLElement[]} rows @returns {HTMLElement[]} */
	#inPlace(rows) {
		const standing = /** @type {HTMLElement[]} */ ([...this.#list.children]);
		return [...standing, ...rows.filter((row) => !row.isConnected && row.dataset.sessionId)];
	}

	/** @param {HTMLElement[]} rows @param {HTMLElement[]} wanted of the others, only the place is left */
	#place(rows, wanted) {
		const [kept, shown] = [new Set(rows), new Set(wanted)];
		const focused = /** @type {HTMLElement | null} */ (document.activeElement);
		for (const [key, row] of this.#rows) {
			row.classList.toggle('gone', !shown.has(row));
			if (!kept.has(row) && !shown.has(row)) {
				row.remove();
				this.#rows.delete(key);
				this.#shown.delete(key);
			}
		}
		rows.forEach((row, i) => {
			if (this.#list.children[i] !== row) {
				this.#list.insertBefore(row, this.#list.children[i] ?? null);
			}
		});
		if (focused !== document.activeElement && this.#list.contains(focused)) {
			focused?.focus({ preventScroll: true }); // its row was moved
		}
	}

	/** The row of this key, made by `make` if `facts` have changed. @param {string} key @param {any[]} facts @param {() => HTMLElement} make */
	#row(key, facts, make) {
		const now = JSON.stringify(facts);
		const row = this.#rows.get(key);
		if (row && this.#shown.get(key) === now) {
			return row;
		}
		this.#shown.set(key, now);
		const made = make();
		if (!row) {
			this.#rows.set(key, made);
			return made;
		}
		morphAttributes(row, made);
		morph(row, made);
		return row;
	}

	#headOf(/** @type {import('./session-groups.js').Group} */ { key, name, title, sessions }, /** @type {boolean} */ isFolded) {
		const isArchive = key === 'Archive';
		const words = isArchive ? `Archive (${sessions.length})` : name;
		return this.#row(` ${key}`, [words, title, isFolded], () =>
			h(
				'li',
				{ class: 'session-group', title: title || null },
				isArchive
					? h(
							'button',
							{
								type: 'button',
								'data-testid': 'show-archive',
								'aria-expanded': String(!isFolded),
							},
							icon('chevron'),
							words,
						)
					: h('h2', {}, ...(title ? [icon('folder'), h('bdi', {}, words)] : [words])),
			),
		);
	}

	#rowOf(/** @type {any} */ session, /** @type {number} */ now) {
		const title = sessionTitle(session);
		const meta = lookUp(STATUS_WORDS, session.status, session.status) || formatAge(session.updated_at, now);
		const isCurrent = session.id === this.#selected;
		const facts = [title, meta, session.status, isCurrent, session.pinned, SessionMenu.isOffered];
		return this.#row(session.id, facts, () =>
			h(
				'li',
				{
					class: 'session',
					'data-testid': 'session',
					'data-session-id': session.id,
					'data-status': session.status,
				},
				h(
					'a',
					{
						href: `#/s/${encodeURIComponent(session.id)}`,
						'aria-current': isCurrent ? 'page' : null,
					},
					h('span', { class: 'session-dot', 'aria-hidden': 'true' }),
					h('span', { class: 'session-title', dir: 'auto', title }, title),
					h('span', { class: 'session-meta' }, meta),
				),
				SessionMenu.isOffered &&
					h(
						'button',
						{
							type: 'button',
							class: 'icon-button',
							'data-testid': 'session-menu',
							'aria-label': `Actions for ${title}`,
							'aria-haspopup': 'menu',
							'aria-expanded': 'false',
						},
						icon('more'),
					),
			),
		);
	}
}

function readOrder() {
	try {
		return localStorage.getItem(ORDER) === 'directories';
	} catch {
		return false; // some browsers have storage disabled
	}
}

function keepOrder(/** @type {boolean} */ hasDirectories) {
	try {
		localStorage.setItem(ORDER, hasDirectories ? 'directories' : 'days');
	} catch {
		// it counts until the page is loaded again
	}
}
