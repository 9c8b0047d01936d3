// What the metrics cost where it counts: of the instructions that the server spends on appends and their deliveries, those that count
// them, by valgrind's callgrind. That is the code of src/core/metrics, what of include/holdfast/metrics.h the compiler put into other
// functions, and the looks at the clock that are there for histograms. One producer, one event in flight; the difference between two
// runs of other lengths leaves out the start and the end (callgrind.mjs).
//
//   meson setup build-bench --buildtype=release -Ddebug=true -Dtests=false && ninja -C build-bench holdfast
//   node bench/metrics.mjs [--build build-bench] [--observers 1,100] [--events 1000]
//
// Prints a line for each number of observers.

import { parseArgs } from 'node:util';
import { costOfEvent } from './callgrind.mjs';

const { values } = parseArgs({ options: { build: { type: 'string', default: 'build-bench' }, observers: { type: 'string', default: '1,100' }, events: { type: 'string', default: '1000' } } });

/* Files whose looks at the clock are for histograms. */
const TIMED = /\/(net\/conn|relay\/relay|store\/journal|store\/log_write)\.c$/;
const OURS = /\/(src\/metrics\/[a-z_]+\.c|include\/holdfast\/metrics\.h)$/;

const isOwn = (file, called) => called === undefined ? OURS.test(file) : called === 'uv_hrtime' && TIMED.test(file);

for (const observers of values.observers.split(',').map(Number)) {
	const { all, own } = await costOfEvent(values.build, { observers, events: Number(values.events) }, isOwn);
	console.log(`observers=${observers} instructions_per_event=${Math.round(all)} metrics=${Math.round(own)} percent=${(100 * own / all).toFixed(2)} ratio=${(all / (all - own)).toFixed(4)}`);
}
