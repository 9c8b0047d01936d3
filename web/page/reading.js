/** The transcript as markdown: one answer to the clipboard, all of it to a file. And printing, which needs every element. */
import { $, h, icon, writeClipboard } from './dom.js';
import { extras } from './lazy.js';
import { loadBackTo } from './older.js';

/**
 * @param {{client: () => import('../client/holdfast-client.js').HoldfastClient | null, title: () => string, tell: (message: string) => void,
 *   showAll: () => void}} page
 */
export function handleReading({ client, title, tell, showAll }) {
	const attempt = async (/** @type {() => Promise<void>} */ what) => {
		try {
			await what();
		} catch (error) {
			tell(`This did not work. ${error instanceof Error ? error.message : ''}`);
		}
	};
	$('#transcript').addEventListener('click', (/** @type {any} */ { target }) => {
		const button = target.closest('[data-action="copy-answer"]');
		const from = client();
		if (button && from) {
			void attempt(() => copyAnswer(from, Number(button.dataset.turn), button));
		}
	});
	$('#export').addEventListener('click', () => {
		const from = client();
		if (from) {
			void attempt(async () => {
				const { saveTranscript } = await extras();
				await saveTranscript(from, title());
			});
		}
	});
	window.addEventListener('beforeprint', showAll);
	window.addEventListener('keydown', (event) => {
		const from = client();
		if (event.key?.toLowerCase() === 'p' && (event.ctrlKey || event.metaKey) && !event.shiftKey && from?.hasOlder) {
			event.preventDefault(); // paper has the whole transcript, and not only what is loaded
			void loadBackTo(from, 0).then(() => window.print());
		}
	});
}

/** @param {import('../client/holdfast-client.js').HoldfastClient} from @param {number} turn @param {HTMLElement} button */
async function copyAnswer(from, turn, button) {
	const seqs = from.events.filter((event) => event.turn === turn).map(({ seq }) => seq);
	const { copyText } = await extras();
	await writeClipboard(await copyText(from.sessionId, seqs[0], seqs[seqs.length - 1]));
	button.replaceChildren(icon('check'), h('span', {}, 'Copied'));
	setTimeout(() => button.replaceChildren(icon('copy'), h('span', {}, 'Copy answer')), 1600);
}
