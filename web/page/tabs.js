/**
 * What the tabs of this browser know of each other: which one rings for all, and whether one is in front. They know it by Web Locks, which end with their
 * tab. In a browser without them each tab is alone.
 */
const RINGS = 'holdfast-rings';
const FRONT = 'holdfast-in-front ';

export class Tabs {
	/** Whether this tab is the one that rings. */
	rings = !navigator.locks;
	#front = FRONT + Math.random();
	/** Gives the lock back that says that this tab is in front. @type {(() => void) | null} */
	#leave = null;

	/** @param {boolean} isAlone this tab's login is its own: it rings, whatever others do */
	constructor(isAlone) {
		const isOver = new Promise(() => {});
		const name = isAlone ? RINGS + this.#front : RINGS;
		navigator.locks?.request(name, () => {
			this.rings = true;
			return isOver;
		}).catch(() => {}); // the page is going
		document.addEventListener('visibilitychange', () => this.#sync());
		this.#sync();
	}

	/** Whether somebody sees a tab of this browser. */
	async areSeen() {
		this.#sync();
		if (!document.hidden) {
			return true;
		}
		const { held = [] } = (await navigator.locks?.query()) ?? {};
		return held.some(({ name = '' }) => name.startsWith(FRONT) && name !== this.#front);
	}

	#sync() {
		if (document.hidden) {
			this.#leave?.();
			this.#leave = null;
		} else if (!this.#leave) {
			const left = new Promise((resolve) => (this.#leave = () => resolve(null)));
			navigator.locks?.request(this.#front, () => left).catch(() => {});
		}
	}
}
