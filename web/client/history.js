/**
 * Holds events of a session and loads them: from the cache, in pages, live, and from the start when those
 * held are void. Also holds the provisional blocks after the last event.
 */
import { makeCache } from './cache.js';
import { Gap } from './gap.js';
import { EventLog } from './log.js';
import { Provisional } from './provisional.js';

const NEWEST_LIMIT = 50;
const CATCH_UP_LIMIT = 500;
const CACHE_MS = 500; // how long a connected client waits for its cache: some browsers never answer
const CACHE_BEHIND_MAX = 2_000; // further behind than this, the cache is no help

/** @typedef {import('./log.js').HoldfastEvent} HoldfastEvent */
/** @typedef {import('./provisional.js').OpenBlock} OpenBlock */

/**
 * @typedef {object} Link
 * @property {import('./connection.js').Connection} connection
 * @property {import('./participant.js').Participant} participant is told which events are held, and which are void
 * @property {import('./agent.js').AgentState} agent the same
 * @property {() => boolean} isConnected the server has sent `connected` on the current socket
 * @property {() => boolean} isOver there will be no other connection
 * @property {(type: string, detail: object) => void} emit listeners may close the client, and open it again
 * @property {(data: any) => void} setState
 * @property {(status: 'loading' | 'live') => void} setStatus
 */

export class History {
	#log = new EventLog();
	#provisional = new Provisional();
	#link;
	#gap;
	#maxEvents;
	#catchUpMax;
	#maxSeq = 0;
	#hasOlder = false;
	#loadingOlder = false;
	/** Older events were requested: none are dropped until dropOlder() is called. */
	#keepsOlder = false;
	/** @type {import('./cache.js').EventCache | null} */
	#cache;
	/** Whether the cache may still answer. */
	#isReading = false;
	/** While it runs, a connection waits for the cache. */
	#patience = null;
	#timers;
	#isLocked;
	/** @type {'newest' | 'after' | null} the load in progress; null: live, or not connected */
	#loading = null;
	/** The page size; smaller after a connection that broke before it had delivered a page. */
	#pageLimit = CATCH_UP_LIMIT;
	/** What the token hides from us, as JSON; null: not known yet. @type {string | null} */
	#hide = null;
	/** The events held were shown under other rules. */
	#isOutdated = false;

	/**
	 * @param {ReturnType<typeof import('./base.js').surroundings>} around
	 * @param {import('./base.js').Surroundings & import('./base.js').ClientOptions} options
	 * @param {string} cacheKey @param {Link} link
	 */
	constructor(around, options, cacheKey, link) {
		this.#link = link;
		this.#timers = around.timers;
		this.#gap = new Gap(around.timers, () => this.position.seq, () => this.#load());
		this.#maxEvents = options.maxEvents ?? Infinity;
		this.#catchUpMax = options.catchUpMax ?? (options.cache ? CACHE_BEHIND_MAX : Infinity);
		this.#cache = options.cache ? makeCache({ ...options, ...around }, cacheKey) : null;
		if (this.#cache) {
			this.#cache.hide = JSON.stringify(around.access.hidden);
		}
		this.#isLocked = () => around.access.hasEnded(around.timers.now());
	}

	/** The epoch and seq of the last event held. */
	get position() {
		return this.#log.position;
	}

	/** @returns {readonly HoldfastEvent[]} */
	get events() {
		return this.#log.events;
	}

	get last() {
		return this.#log.last;
	}

	get hasOlder() {
		return this.#hasOlder;
	}

	/** @returns {readonly OpenBlock[]} */
	get open() {
		return this.#provisional.blocks;
	}

	/** Nothing is requested from the server before this is over. */
	get isReading() {
		return this.#isReading;
	}

	get isLoading() {
		return this.#loading !== null;
	}

	get figures() {
		const lag = Math.max(0, this.#maxSeq - this.position.seq);
		return { maxSeq: this.#maxSeq, lag, cacheFailure: this.#cache?.failure?.message ?? null };
	}

	/** A new connection. @param {{max_seq: number, hide?: string[]}} data */
	greet(data) {
		this.#maxSeq = data.max_seq;
		this.takeHide(data);
	}

	/** Begins on a new connection, after greet(): loads missing events, and sends everything unconfirmed. */
	begin() {
		if (!this.#link.isConnected() || (this.#isReading && this.#patience !== null)) {
			return;
		}
		if (this.#isReading) {
			this.#isReading = false;
			this.#cache?.giveUp();
		}
		this.#load();
		this.#link.participant.begin();
	}

	/** Notes what the token hides, which may have changed since the events came. @param {{hide?: string[]}} data */
	takeHide({ hide = [] }) {
		const now = JSON.stringify(hide);
		this.#isOutdated ||= this.#hide !== null && this.#hide !== now && this.position.seq > 0;
		this.#hide = now;
		if (this.#cache) {
			this.#cache.hide = now;
		}
	}

	/** Loads events again that were shown under other rules. */
	refresh() {
		if (this.#isOutdated && this.#link.isConnected() && !this.#isReading) {
			this.#load();
		}
	}

	/** The connection is lost. */
	pause() {
		if (this.#loading) {
			this.#pageLimit = Math.ceil(this.#pageLimit / 4);
		}
		this.stop();
	}

	/** There is no connection any more. */
	stop() {
		this.#loading = null;
		this.#loadingOlder = false;
		this.#gap.stop();
	}

	endCache(/** @type {string | undefined} */ reason) {
		this.#endPatience();
		void this.#cache?.end(reason);
	}

	/** The server has refused a load. */
	refuse() {
		this.#loadingOlder = false;
	}

	/** The agent's state has changed: the cache keeps its events, too. */
	keepAgent() {
		const { epoch } = this.position;
		if (epoch === this.#link.agent.epoch && !this.#link.isOver()) {
			this.#cache?.keepAgent(epoch, this.#link.agent.events);
		}
	}

	/** Asks for the page before the first event held. True if a request went out. */
	loadOlder(limit = NEWEST_LIMIT) {
		const { first } = this.#log;
		const isIdle = !this.#loadingOlder && !this.#loading && this.#link.isConnected();
		if (!first || !this.#hasOlder || !isIdle) {
			return false;
		}
		this.#loadingOlder = this.#link.connection.send('load_events', {
			before_seq: first.seq,
			epoch: this.position.epoch,
			limit,
		});
		return this.#loadingOlder;
	}

	/** Forgets all but the newest events. Returns how many were dropped. */
	dropOlder(/** @type {number} */ keepCount) {
		this.#keepsOlder = false;
		const count = this.#log.trim(keepCount);
		if (count > 0) {
			this.#hasOlder = true;
			this.#link.emit('trimmed', { count });
		}
		return count;
	}

	#endPatience() {
		this.#timers.clearTimeout(this.#patience);
		this.#patience = null;
	}

	/** Shows the cached events, however late they come, unless the server's have come first. */
	readCache() {
		if (!this.#cache || this.position.epoch !== null || this.#isLocked()) {
			return;
		}
		this.#isReading = true;
		this.#endPatience();
		this.#patience = this.#timers.setTimeout(() => {
			this.#patience = null;
			this.begin();
		}, CACHE_MS);
		this.#cache.read().then((found) => {
			if (!this.#isReading) {
				return;
			}
			this.#isReading = false;
			this.#endPatience();
			this.#hide ??= found && this.#cache ? this.#cache.hide : null;
			if (found && this.position.epoch === null && !this.#link.isOver()) {
				this.#log.reset(found.epoch);
				this.#link.agent.restore(found.epoch, found.agent);
				const { taken } = this.#log.take(found.events, true);
				this.#hasOlder = taken[0]?.seq > 1;
				this.#announce({ events: taken, cached: true });
			}
			this.begin();
		});
	}

	/** An answer to load_events. */
	takePage(/** @type {any} */ page) {
		if (page.prepend && !page.reset) {
			this.#takeOlder(page);
			return;
		}
		const { connection } = this.#link;
		connection.answered();
		const fresh = Boolean(page.reset) || this.#loading === 'newest';
		if (fresh) {
			// Before the events: the new history must never follow events of the old one.
			this.#startOver(page);
		} else if (page.epoch !== this.position.epoch) {
			connection.abandon('a page of another epoch without a reset');
			return;
		}
		this.#maxSeq = page.max_seq;
		this.#link.setState(page);
		if (!this.#link.isConnected()) {
			return; // closed by a listener to this or to the reset
		}
		if (!this.#append(page.events, fresh)) {
			connection.abandon('a page with a gap');
			return;
		}
		this.#pageLimit = Math.min(CATCH_UP_LIMIT, this.#pageLimit * 2);
		if (!this.#link.isConnected()) {
			return;
		}
		if (!fresh && page.has_more) {
			connection.expectAnswer('the next page');
			return;
		}
		this.#goLive(page);
	}

	/** Takes new events. */
	takeLive(/** @type {any} */ data) {
		if (this.#loading === 'newest') {
			return; // the requested page decides where to start
		}
		this.#link.setState(data);
		if (!this.#link.isConnected()) {
			return; // closed by a listener to `state`
		}
		if (!this.#append(data.events, false) && !this.#loading) {
			this.#load();
			return;
		}
		this.#checkBehind(data.max_seq);
	}

	/** The answer to a keepalive. */
	takeAck(/** @type {any} */ data) {
		this.#link.setState(data);
		if (this.#loading || !this.#link.isConnected() || this.#isReading) {
			return;
		}
		if (data.epoch !== this.position.epoch) {
			this.#load(); // the server will answer with a reset
			return;
		}
		this.#checkBehind(data.max_seq);
	}

	/** More text of a block that grows. */
	takeDelta(/** @type {any} */ delta) {
		this.takeOpen(this.#provisional.grown(delta));
	}

	/** A block that grows. */
	takeOpen(/** @type {OpenBlock | null} */ block) {
		const isNews = block && block.seq > this.position.seq;
		if (isNews && this.#link.isConnected() && !this.#loading) {
			this.#provisional.setBlock(block);
			this.#link.emit('open', { blocks: this.open });
		}
	}

	/** An input that waits for an open block to end. */
	takeActivity(/** @type {any} */ notice) {
		if (notice.seq > this.position.seq) {
			this.#provisional.addActivity(notice);
			this.#emitActivity();
		}
	}

	/** Requests everything after the position, or the newest page if that is too far back. */
	#load() {
		const { connection, setStatus } = this.#link;
		const { epoch, seq } = this.position;
		const follows = seq > 0 && !this.#isOutdated && !(this.#maxSeq - seq > this.#catchUpMax);
		this.#loading = follows ? 'after' : 'newest';
		this.#loadingOlder = false;
		this.#gap.stop();
		connection.expectAnswer('load_events');
		connection.send(
			'load_events',
			follows
				? { after_seq: seq, epoch, follow: true, limit: this.#pageLimit }
				: { limit: Math.min(NEWEST_LIMIT, this.#pageLimit) },
		);
		setStatus('loading');
	}

	/** The load has reached the end. */
	#goLive(/** @type {any} */ page) {
		this.#loading = null;
		this.#link.agent.fill();
		this.#link.connection.proved();
		if (this.#provisional.replace(page)) {
			this.#link.emit('open', { blocks: this.open });
		}
		this.#checkBehind(page.max_seq);
		if (this.#link.isConnected()) {
			this.#link.setStatus('live');
		}
	}

	#takeOlder(/** @type {any} */ page) {
		this.#loadingOlder = false;
		const events = this.#log.prepend(page.epoch, page.events);
		if (events) {
			this.#keepsOlder = true;
			this.#hasOlder = page.has_more;
			this.#link.emit('older', { events, hasOlder: this.#hasOlder });
		}
	}

	/** False: there is a gap, and nothing behind the gap was taken. */
	#append(/** @type {HoldfastEvent[]} */ events, /** @type {boolean} */ anyStart) {
		const { taken, whole } = this.#log.take(events, anyStart);
		if (taken.length > 0) {
			this.#link.connection.proved();
			this.#cache?.add(this.position.epoch, taken);
			this.#announce({ events: taken });
		}
		return whole;
	}

	/** Announces events that are now held, and ends their provisional versions. */
	#announce(/** @type {{events: HoldfastEvent[], cached?: true}} */ detail) {
		const { participant, agent, emit } = this.#link;
		const { seq } = this.position;
		if (this.#provisional.endUpTo(seq)) {
			this.#emitActivity();
		}
		participant.settle(detail.events);
		emit('events', detail);
		agent.take(this.position.epoch, detail.events);
		participant.settleUpTo(seq);
		if (this.#log.size > this.#maxEvents && !this.#keepsOlder) {
			this.dropOlder(Math.ceil(this.#maxEvents * 0.875)); // not one by one from now on
		}
	}

	/** Notes max_seq. Events up to it are missing unless the next frames bring them. */
	#checkBehind(/** @type {number} */ maxSeq) {
		this.#maxSeq = maxSeq;
		if (this.#loading || !this.#link.isConnected()) {
			this.#gap.stop();
		} else {
			this.#gap.check(maxSeq);
		}
	}

	/** Drops everything held and starts over with this page: a reset, if anything was held. */
	#startOver(/** @type {any} */ page) {
		const { participant, agent, emit, isConnected } = this.#link;
		const { epoch, seq } = this.position;
		const isOther = epoch !== null && epoch !== page.epoch;
		const why = this.#isOutdated ? 'access' : 'behind';
		const reason = page.reset?.reason ?? (isOther ? 'epoch' : seq > 0 ? why : null);
		this.#isOutdated = false;
		this.#log.reset(page.epoch);
		this.#cache?.reset(page.epoch);
		this.#cache?.keepAgent(page.epoch, agent.events);
		this.#hasOlder = page.has_more;
		this.#loadingOlder = this.#keepsOlder = false;
		if (reason) {
			this.#provisional.clear();
			if (reason === 'epoch' || reason === 'ahead') {
				participant.reset();
				agent.doubt();
			}
			emit('reset', { reason });
			if (isConnected()) {
				this.#emitActivity();
			}
		}
		if (page.events[0]?.seq > 1) {
			// Their events may be before this page. The server knows them by their ids and says where.
			participant.doubt();
		}
	}

	#emitActivity() {
		this.#link.emit('activity', { held: this.#provisional.held });
	}
}
