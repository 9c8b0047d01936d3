/** The list of sessions in the sidebar. */
import { h, icon, lookUp, morph, visible } from './dom.js';
import { may } from './rights.js';

const STATUS_WORDS = { running: 'Running', waiting: 'Waiting', idle: '' };

/** @param {any} session */
export function sessionTitle({ title, id }) {
	return visible(title || `Session ${id.slice(0, 8)}`);
}

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
	/** @type {Map<string, HTMLElement>} */
	#rows = new Map();
	/** @type {any[]} */
	#sessions = [];
	/** @type {string | null} */
	#selected = null;

	/**
	 * @param {HTMLElement} list @param {HTMLElement} empty shown when there is no session
	 * @param {(session: any) => void} wantDelete
	 */
	constructor(list, empty, wantDelete) {
		this.#list = list;
		this.#empty = empty;
		list.addEventListener('click', (event) => {
			const button = /** @type {HTMLElement} */ (event.target).closest(
				'[data-action="delete"]',
			);
			const id = button?.closest('li')?.dataset.sessionId;
			const session = this.#sessions.find((candidate) => candidate.id === id);
			if (session) {
				wantDelete(session);
			}
		});
		setInterval(() => this.#render(), 60_000); // ages
	}

	/** @param {any[]} sessions */
	show(sessions) {
		this.#sessions = sessions;
		this.#render();
	}

	/** @param {string | null} id */
	select(id) {
		this.#selected = id;
		this.#render();
	}

	/** @param {string | null} id */
	find(id) {
		return this.#sessions.find((session) => session.id === id) ?? null;
	}

	#render() {
		const ids = new Set(this.#sessions.map(({ id }) => id));
		for (const [id, row] of this.#rows) {
			if (!ids.has(id)) {
				row.remove();
				this.#rows.delete(id);
			}
		}
		this.#sessions.forEach((session, i) => {
			const row = this.#rowOf(session);
			if (this.#list.children[i] !== row) {
				this.#list.insertBefore(row, this.#list.children[i] ?? null);
			}
		});
		this.#empty.hidden = this.#sessions.length > 0;
	}

	/** @param {any} session */
	#rowOf(session) {
		const row =
			this.#rows.get(session.id) ??
			h('li', { class: 'session', 'data-testid': 'session', 'data-session-id': session.id });
		this.#rows.set(session.id, row);
		row.dataset.status = session.status;
		const words = lookUp(STATUS_WORDS, session.status, session.status);
		morph(
			row,
			h(
				'li',
				{},
				h(
					'a',
					{
						href: `#/s/${encodeURIComponent(session.id)}`,
						'aria-current': session.id === this.#selected ? 'page' : null,
					},
					h('span', { class: 'session-dot', 'aria-hidden': 'true' }),
					h('span', { class: 'session-title' }, sessionTitle(session)),
					h(
						'span',
						{ class: 'session-meta' },
						words || formatAge(session.updated_at, Date.now()),
					),
				),
				may('delete') &&
					h(
						'button',
						{
							type: 'button',
							class: 'icon-button',
							'data-action': 'delete',
							'data-testid': 'delete-session',
							'aria-label': `Delete ${sessionTitle(session)}`,
						},
						icon('trash'),
					),
			),
		);
		return row;
	}
}
