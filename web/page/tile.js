/** One session on the wall: title, status and live transcript. It is connected while it is visible. */
import { HoldfastClient } from '../client/holdfast-client.js';
import { h, icon, lookUp } from './dom.js';
import { sessionTitle } from './sessions.js';
import { Transcript } from './transcript.js';
import { usageText } from './usage.js';
import { hintText } from './words.js';

const LEAVE_MS = 5_000; // how long a tile out of sight keeps its connection
const EVENTS_MAX = 1_000; // held of one session
const WORDS = { running: 'Running', waiting: 'Waiting for an answer', idle: 'Idle' };
const LINK_WORDS = {
	connecting: 'Connecting',
	loading: 'Loading',
	retrying: 'Reconnecting',
	offline: 'Offline',
	gone: 'Deleted',
	unauthorized: 'Signed out',
};

let lastTile = 0;

export class Tile {
	/** The tile. @type {HTMLElement} */
	element;
	/** @type {any} */
	session;
	#link = h('a', { class: 'tile-title' });
	#state = h('span', { class: 'tile-state' });
	#usage = h('span', { class: 'tile-usage' });
	#transcript;
	#list = h('div', { class: 'transcript', role: 'log', 'aria-live': 'off' });
	/** @type {HoldfastClient | null} */
	#client = null;
	#leaving = 0;
	/** @type {any[]} */
	#held = [];
	/** The same for each of its connections, so that answers given here stay marked "you". @type {string | undefined} */
	#clientId;

	#refused;

	/** @param {any} session @param {(reason?: string) => void} refused the server does not let us in any more */
	constructor(session, refused) {
		lastTile += 1;
		this.#refused = refused;
		const scroller = h('div', { class: 'tile-scroller', tabindex: '0', role: 'region' });
		const tail = h('div', { class: 'tail' });
		const jump = h(
			'button',
			{ type: 'button', class: 'jump', hidden: true },
			icon('down'),
			h('span', {}, 'Latest'),
		);
		const heading = h('h2', { id: `tile-${lastTile}`, dir: 'auto' }, this.#link);
		scroller.append(h('div', { class: 'column' }, this.#list, tail));
		this.element = h(
			'article',
			{
				class: 'tile',
				'data-session-id': session.id,
				'data-testid': 'tile',
				'aria-labelledby': heading.id,
			},
			h(
				'div',
				{ class: 'tile-head' },
				h('span', { class: 'session-dot', 'aria-hidden': 'true' }),
				heading,
				this.#state,
			),
			scroller,
			h('div', { class: 'tile-foot' }, jump, this.#usage),
		);
		this.#transcript = new Transcript(
			{ scroller, list: this.#list, tail, jump },
			{
				wantOlder: () => this.#client?.loadOlder(),
				answer: (request, option) => this.#answer(request, option),
				elicit: (id, action, content) => {
					this.#transcript.setAnswering(id, action);
					this.#client?.answerElicitation(id, action, content);
				},
			},
		);
		this.show(session);
		scroller.setAttribute('aria-label', `Transcript of ${sessionTitle(session)}`);
	}

	/** @param {any} session its newest entry in the list */
	show(session) {
		this.session = session;
		this.#link.href = `./#/s/${encodeURIComponent(session.id)}`;
		this.#link.textContent = sessionTitle(session);
		this.#link.title = sessionTitle(session);
		this.#update();
	}

	/** @param {boolean} seen */
	setSeen(seen) {
		clearTimeout(this.#leaving);
		if (seen && !this.#client) {
			this.#connect();
		} else if (!seen && this.#client) {
			this.#leaving = window.setTimeout(() => this.#disconnect(), LEAVE_MS);
		}
	}

	/** The session is gone, or filtered out. */
	close() {
		clearTimeout(this.#leaving);
		this.#disconnect();
		this.element.remove();
	}

	#connect() {
		const client = new HoldfastClient({
			sessionId: this.session.id,
			deltas: 'html',
			clientId: this.#clientId,
			maxEvents: EVENTS_MAX,
		});
		const on = (/** @type {any} */ type, /** @type {(detail: any) => void} */ fn) =>
			client.on(type, (detail) => {
				if (this.#client === client) {
					fn(detail);
					this.#update();
				}
			});
		this.#client = client;
		this.#clientId = client.clientId;
		this.#transcript.clear(client.clientId);
		on('events', ({ events }) => this.#transcript.append(events));
		on('older', () => this.#transcript.replace(client.events));
		on('trimmed', () => this.#transcript.replace(client.events));
		on('reset', () => this.#transcript.clear(client.clientId));
		on('open', ({ blocks }) => this.#transcript.setOpen(blocks));
		on('activity', ({ held }) => {
			this.#held = held;
		});
		on('state', () => {});
		on('status', ({ status, reason }) => {
			this.#transcript.setHasOlder(status === 'live' && client.hasOlder);
			if (status === 'unauthorized') {
				this.#refused(reason);
			}
		});
		on('error', ({ error }) => {
			if (!error.detail.retrying) {
				this.#transcript.setAnswering(error.detail.request_id, null);
			}
		});
		client.connect();
	}

	#disconnect() {
		const client = this.#client;
		this.#client = null; // its later events are ignored
		client?.close();
		this.#transcript.clear(this.#clientId ?? '');
		this.#update();
	}

	#answer(/** @type {string} */ requestId, /** @type {string} */ optionId) {
		this.#transcript.setAnswering(requestId, optionId);
		this.#client?.answerPermission(requestId, optionId);
	}

	#update() {
		const link = this.#client?.status.status ?? 'closed';
		const {
			is_prompting: prompting = false,
			status = this.session.status,
			usage = null,
		} = this.#client?.state ?? {};
		const live = link === 'live';
		const doing = live ? status : this.session.status;
		this.element.dataset.status = doing;
		this.element.dataset.link = link;
		this.#state.textContent = lookUp(LINK_WORDS, link, lookUp(WORDS, doing, String(doing)));
		this.#usage.textContent = usageText(usage);
		this.#transcript.setTail({
			lost:
				link === 'retrying' || link === 'offline'
					? 'Connection lost. The session will continue where it left off.'
					: '',
			hint:
				live && this.#transcript.isGrowing
					? hintText(this.#held, this.#transcript.openKind)
					: '',
			working: live && prompting && !this.#transcript.isGrowing && doing !== 'waiting' ? 'Working' : '',
			prompts: [],
		});
		this.element.classList.toggle('empty', live && this.#transcript.isEmpty);
	}
}
