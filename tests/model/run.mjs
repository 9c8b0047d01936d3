// The model-based check of the contract: random stories on the real server, held against a model of the log that is made from proto/
// alone. A finding is printed with its seed; `--seed N --stories 1` tells that story again (what races in it may race otherwise).
//
//   node tests/model/run.mjs [--seconds 600] [--seed N] [--stories N] [--steps N] [--only kills,disk,…]
//        [--without agent,…] [--binary build-test/holdfast]

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Random, lastWords } from './rig.mjs';
import { Story } from './story.mjs';
import { Talk } from './talk.mjs';

const KINDS = ['kills', 'deletes', 'disk', 'full starts', 'runs', 'snapshots', 'agent'];
const root = fileURLToPath(new URL('../../', import.meta.url));

const { values } = parseArgs({ options: {
	seconds: { type: 'string', default: '600' }, seed: { type: 'string' }, stories: { type: 'string', default: '1000000' }, steps: { type: 'string' }, only: { type: 'string' }, without: { type: 'string', default: '' },
	binary: { type: 'string', default: process.env.HOLDFAST_BIN ?? ['build-test', 'build'].map((d) => join(root, d, 'holdfast')).find(existsSync) }, 'in-namespace': { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h', default: false },
} });
if (values.help) {
	console.log(`Usage: scripts/test model [--seconds 600] [--seed N] [--stories N] [--steps N] [--only KIND,…] [--without KIND,…] [--binary FILE]

Tells random stories on the real server and compares them with a model of the log. KIND is one of: ${KINDS.join(', ')}.
--seed N --stories 1 tells one story again. The exit status is 1 if there was a finding.`);
	process.exit(0);
}

/** Disks to fill are mounted in a namespace of our own; with us they are gone. */
function enterNamespace() {
	const mayMount = spawnSync('unshare', ['--map-root-user', '--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0;
	if (!mayMount) {
		console.log('unshare --mount is refused here: no story has a full disk');
		return false;
	}
	const { status, signal } = spawnSync('unshare', ['--map-root-user', '--mount', process.execPath, fileURLToPath(import.meta.url), '--in-namespace', ...process.argv.slice(2)], { stdio: 'inherit' });
	process.exit(status ?? signal);
	return true;
}

/** What the story of a seed is about: some of all there is (with --only: all that it names). */
function kindsOf(seed, allowed) {
	const random = new Random(seed ^ 0x5eed);
	return allowed.filter((kind) => random.oneIn(kind === 'agent' ? 4 : 2) || (kind === 'kills' && random.oneIn(2)));
}

async function tell(seed, allowed) {
	const kinds = values.only ? allowed : kindsOf(seed, allowed);
	const story = kinds.includes('agent') ? new Talk(values.binary, seed, { kinds }) : new Story(values.binary, seed, { kinds });
	const since = Date.now();
	try {
		await story.tell(Number(values.steps ?? 40 + new Random(seed).below(160)));
		console.log(`ok      seed ${seed} (${kinds.join(', ') || 'calm'}) in ${((Date.now() - since) / 1000).toFixed(1)} s: ${story.told}`);
		return true;
	} catch (error) {
		console.log(`FINDING seed ${seed} (${kinds.join(', ') || 'calm'}) after ${story.log.length} steps:\n${error.name === 'Error' && error.constructor.name === 'Finding' ? error.message : error.stack}`);
		console.log(`  the last steps: ${story.log.slice(-12).join('; ')}\n  again: node tests/model/run.mjs --seed ${seed} --stories 1${values.only ? ` --only ${values.only}` : ''}${values.without ? ` --without ${values.without}` : ''}${values.steps ? ` --steps ${values.steps}` : ''}\n  the server said: ${/Sanitizer/.test(error.message) ? '(see above)' : lastWords(story.machine.stderr)}`);
		return false;
	} finally {
		story.observers.forEach((o) => o.drop());
		await story.machine.destroy();
	}
}

const mounted = values['in-namespace'] || enterNamespace();
const without = values.without.split(',');
const allowed = (values.only?.split(',') ?? KINDS).filter((kind) => !without.includes(kind) && (mounted || !['disk', 'full starts'].includes(kind)));
const first = Number(values.seed ?? Date.now() % 1_000_000_000);
const end = Date.now() + Number(values.seconds) * 1000;
let passed = 0;
let failed = 0;
for (let n = 0; n < Number(values.stories) && Date.now() < end; n++) {
	await tell(first + n, allowed) ? passed++ : failed++;
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
