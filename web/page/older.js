/** Older pages of a session, as far as they are wanted. */

/** @typedef {import('../client/holdfast-client.js').HoldfastClient} HoldfastClient */

const PAGE = 1_000;

/**
 * Loads older events until the one with this number is held, or there are no older ones.
 * @param {HoldfastClient} from @param {number} seq @param {() => boolean} [isWanted] asked after each page
 * @returns {Promise<boolean>} false: the connection has broken before
 */
export async function loadBackTo(from, seq, isWanted = () => true) {
	while (from.hasOlder && (from.events[0]?.seq ?? 0) > seq && isWanted()) {
		const answered = new Promise((done) => {
			const off = [from.on('older', () => end()), from.on('status', () => end())];
			const end = () => done(off.forEach((each) => each()));
		});
		from.loadOlder(PAGE);
		await answered;
		if (from.status.status !== 'live') {
			return false;
		}
	}
	return true;
}
