// Sessions as long as agents make them, for tests and figures of the page.

import { input, post } from './producer.mjs';

const AT_ONCE = 2_000;

/** The nth event: paragraphs, and now and then code, a table, a tool with its result, and what is not shown at all. */
export function eventOf(n) {
	const kinds = {
		0: input.tool(`call-${n}`, `Look it up, ${n}`),
		1: input.text(`\`\`\`js\nconst n = ${n}; // the ${n}th\n\`\`\`\n\n`, `m${n}`),
		2: input.text(`| a | b |\n|---|---|\n| ${n} | two |\n\n`, `m${n}`),
		3: { type: 'usage', data: { mode: 'cumulative', used: n, size: 200_000 } },
		4: input.toolDone(`call-${n - 4}`),
	};
	return n % 20 < 5 && n >= 20 ? kinds[n % 20] : input.text(`${n}. ${'Nothing was lost. '.repeat((n % 7) + 1)}\n\n`, `m${n}`);
}

/** A session with so many of them; gives its id and the number of the last one. */
export async function makeLongSession(server, count) {
	const { id } = await server.createSession({ title: 'A long one' });
	let last = 0;
	for (let n = 1; n <= count; n += AT_ONCE) {
		const events = Array.from({ length: Math.min(AT_ONCE, count - n + 1) }, (_, i) => eventOf(n + i));
		({ max_seq: last } = await post(server, id, events));
	}
	return { id, last };
}
