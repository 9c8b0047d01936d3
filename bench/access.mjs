// What tokens cost where it counts: instructions that the server spends on an append and its deliveries with tokens, and with
// --auth off, of the same binary, in turns (callgrind.mjs); and of them those in the code of access, which both have.
//
//   meson setup build-bench --buildtype=release -Ddebug=true -Dtests=false && ninja -C build-bench holdfast
//   node bench/access.mjs [--build build-bench] [--observers 1,100] [--events 1000] [--rounds 5]
//
// Prints a line for each round, and one for each number of observers: the means, and how far rounds are from them.

import { parseArgs } from 'node:util';
import { costOfEvent } from './callgrind.mjs';

const { values } = parseArgs({
	options: {
		build: { type: 'string', default: 'build-bench' }, observers: { type: 'string', default: '1,100' }, events: { type: 'string', default: '1000' },
		rounds: { type: 'string', default: '5' },
	},
});
const OURS = /\/(src\/access\/[a-z_]+\.c|src\/net\/(identity|auth|login_cookie)\.c|include\/holdfast\/(access|grant)\.h)$/;
const isOwn = (file, called) => called === undefined && OURS.test(file);
const mean = (list) => list.reduce((sum, x) => sum + x, 0) / list.length;
const spread = (list) => Math.max(...list.map((x) => Math.abs(x / mean(list) - 1)));
const percent = (x) => `${(100 * x).toFixed(2)}%`;

for (const observers of values.observers.split(',').map(Number)) {
	const found = { off: [], token: [] };
	for (let round = 1; round <= Number(values.rounds); round++) {
		for (const way of round % 2 ? ['off', 'token'] : ['token', 'off']) {
			const cost = await costOfEvent(values.build, { observers, events: Number(values.events), auth: way === 'token' }, isOwn);
			console.log(`observers=${observers} round=${round} auth=${way} instructions_per_event=${Math.round(cost.all)} access=${cost.own.toFixed(1)}`);
			found[way].push(cost);
		}
	}
	const all = (way) => found[way].map((cost) => cost.all);
	const share = mean(found.token.map(({ own }) => own)) / mean(all('token'));
	console.log(`observers=${observers} off=${Math.round(mean(all('off')))} (+-${percent(spread(all('off')))}) token=${Math.round(mean(all('token')))} (+-${percent(spread(all('token')))}) ratio=${(mean(all('token')) / mean(all('off'))).toFixed(4)} share_of_access=${percent(share)}`);
}
