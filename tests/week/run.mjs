// A week of a server's life in minutes: its clocks are moved on, hour by hour, while sessions come, grow and go. In it are an
// upgrade of data of an earlier format, rotation of the journal, retention by age and size, backups, a restore, a full disk and
// back, SIGHUP, kill -9 and SIGTERM. In the end every acknowledged event that is young enough is there once, `verify` is clean, and
// memory and descriptors are where they were on the first day of that process.
//
//   node tests/week/run.mjs [--days 7] [--steps 24]

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, cpSync, mkdirSync, openSync, readFileSync, readdirSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Server, canMount, runToEnd, scratchDir } from '../support/server.mjs';
import { input } from '../support/producer.mjs';
import { Observer } from '../support/observer.mjs';
import { eventually } from '../support/wait.mjs';
import { WallClock, sanitizers } from '../support/wall_clock.mjs';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const KEEP_DAYS = 2;
const KEEP_BYTES = 96 * 1024;
const BATCH = 30;

const { values } = parseArgs({ options: { days: { type: 'string', default: '7' }, steps: { type: 'string', default: '24' }, inside: { type: 'string' }, help: { type: 'boolean', short: 'h', default: false } } });
if (values.help) {
	console.log('Usage: scripts/test week [--days 7] [--steps 24]\n\nLives a week with a server, in so many steps a day. The exit status is 1 if something was not as it should be.');
	process.exit(0);
}
const days = Number(values.days);
const steps = Number(values.steps);

/** The disk that is filled is mounted in a namespace of our own; with us it is gone. Node 18 has some globals behind flags. */
if (!values.inside) {
	const flags = Number(process.versions.node.split('.')[0]) < 20 ? ['--experimental-global-webcrypto', '--experimental-global-customevent'] : [];
	const [command, ...words] = [...(canMount() ? ['unshare', '--map-root-user', '--mount'] : []), process.execPath, ...flags, fileURLToPath(import.meta.url), `--inside=${canMount() ? 'namespace' : 'nothing'}`, ...process.argv.slice(2)];
	const { status } = spawnSync(command, words, { stdio: 'inherit' });
	process.exit(status ?? 1);
}
const mayMount = values.inside === 'namespace';

const undo = [];
const t = { after: (f) => undo.unshift(f) };

class Week {
	told = new Map(); // of each session that lives: {day, keys: [{key, seq}]}
	full = 0;
	kills = 0;
	backups = 0;
	appended = 0;

	constructor() {
		this.dir = scratchDir(t);
		this.disk = join(this.dir, 'disk');
		this.data = join(this.disk, 'data');
		this.target = join(this.dir, 'backups');
		mkdirSync(this.disk);
		if (mayMount) {
			const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', this.disk], { encoding: 'utf8' });
			assert.equal(status, 0, stderr);
			t.after(() => spawnSync('umount', ['-l', this.disk]));
		} else {
			console.log('unshare --mount is refused here: no disk is filled');
		}
		this.clock = new WallClock(t, { isWhole: true });
		// ThreadSanitizer keeps four times as much of all memory that was ever used, also of what was given back.
		this.shadows = sanitizers().some((path) => path.includes('libtsan')) ? 4 : 1;
		// What a sanitizer keeps of freed memory is no growth of the server: AddressSanitizer 8 MB, and what each thread has freed last.
		this.kept = sanitizers().length > 0 ? 24_576 : 4096;
		this.env = { ...this.clock.env, ASAN_OPTIONS: `${this.clock.env.ASAN_OPTIONS}:quarantine_size_mb=8` };
	}

	get now() {
		return this.clock.now();
	}

	async run(code, ...args) {
		const done = await runToEnd(args, { env: this.env, timeoutMs: 120_000 });
		assert.equal(done.signal ?? done.code, code, `holdfast ${args.join(' ')}\n${done.stdout}${done.stderr}`);
		return done;
	}

	/** A connection that the server closes as a request comes is no answer: what has a key may be sent again. */
	async ask(method, path, options) {
		for (let attempt = 1; ; attempt++) {
			try {
				return await this.server.request(method, path, options);
			} catch (error) {
				if (attempt === 5 || !(error instanceof TypeError)) {
					throw error;
				}
			}
		}
	}

	/** Data of an earlier format, upgraded. */
	async begin() {
		cpSync(fileURLToPath(new URL('../fixtures/data-v1/stopped', import.meta.url)), this.data, { recursive: true });
		await this.run(1, 'upgrade', this.data, '--dry-run');
		await this.run(0, 'upgrade', this.data);
		await this.run(0, 'verify', this.data);
		const limits = ['segment_size=64K', 'journal_ahead=16K', 'clock_trust_ms=0', 'prune_ms=50', 'prune_size=16K', 'journal_retry_ms=50'];
		this.server = await Server.start(t, {
			dataDir: this.data, cwd: this.dir, listen: ['127.0.0.1:0'], env: this.env,
			args: ['--keep-days', String(KEEP_DAYS), '--keep-bytes', String(KEEP_BYTES), ...limits.flatMap((limit) => ['--limit', limit])],
		});
	}

	/** What was open in the old data ends: a session in the middle of a turn stays in memory. */
	async endTurns() {
		for (const { id, status } of (await this.ask('GET', '/api/sessions')).body.sessions) {
			if (status !== 'idle') {
				const run = id === 'running' ? { run_id: 'r-1' } : {};
				assert.ok(await this.append(id, [{ ...input.end(), ...run }, ...(run.run_id ? [{ type: 'run_end', data: run, ...run }] : [])]), id);
			}
		}
	}

	async append(id, events) {
		const { status, body } = await this.ask('POST', `/api/sessions/${id}/events`, { json: events });
		assert.ok(status === 200 || body.error?.code === 'storage_failed', `${status} ${JSON.stringify(body)}`);
		return status === 200 ? body.acks : null;
	}

	/** Some work in each session of the last two days, all of it with keys. */
	async work(step) {
		for (const [id, session] of this.told) {
			const begun = session.keys.length;
			const events = Array.from({ length: BATCH }, (_, i) => ({ ...input.note({ text: `${step} ${'x'.repeat(60 + 10 * (i % 30))}` }), key: `${id}-${begun + i}` }));
			const acks = await eventually(() => this.append(id, events), `${id} to take what it is given`);
			session.keys.push(...acks.map(({ seq }, i) => ({ key: events[i].key, event: events[i], seq })));
			this.appended += BATCH;
		}
	}

	async newSessions(day) {
		for (const name of ['a', 'b']) {
			const { status, body } = await this.ask('POST', '/api/sessions', { json: { id: `day${day}-${name}` } });
			assert.equal(status, 201, JSON.stringify(body));
			this.told.set(`day${day}-${name}`, { day, keys: [] });
		}
		for (const [id, session] of [...this.told]) {
			if (session.day <= day - 3) {
				assert.equal((await this.ask('DELETE', `/api/sessions/${id}`)).status, 204);
				this.told.delete(id);
			}
		}
	}

	/** What a person sees who opens the session now: no number is missing, none is there twice. */
	async look(id) {
		const observer = await Observer.connect(t, this.server, id, { query: { format: 'markdown' } });
		const events = await observer.loadAll();
		observer.finish();
		const { body } = await this.ask('GET', `/api/sessions/${id}`);
		const seqs = events.map(({ seq }) => seq);
		assert.deepEqual(seqs, Array.from({ length: seqs.length }, (_, i) => seqs[0] + i), id); // it may have been pruned since
		assert.ok(seqs.length === 0 || body.first_seq >= seqs[0], id);
		assert.equal(seqs.at(-1) ?? 0, body.max_seq, id);
		return { session: body, events };
	}

	/** Retention has taken what is too old or too much, and nothing else. */
	async checkRetention() {
		for (const [id, { keys }] of this.told) {
			const seen = await eventually(async () => {
				const { session, events } = await this.look(id);
				const size = events.reduce((sum, event) => sum + JSON.stringify(event).length, 0);
				const isYoung = events.length < 2 || events[0].ts >= this.now - KEEP_DAYS * DAY - HOUR;
				return isYoung && size < KEEP_BYTES * 1.5 && { session, events };
			}, `${id} to be pruned`);
			assert.equal(seen.session.max_seq, keys.at(-1)?.seq ?? 0, id);
			const again = keys.slice(-3);
			for (const { event, seq } of again) {
				assert.deepEqual(await this.append(id, event), [{ seq, duplicate: true }], `${id}: ${event.key} is known`);
			}
		}
	}

	async backup() {
		await this.run(0, 'backup', this.data, this.target, '--keep', '3');
		this.backups++;
	}

	/** Appends are refused while there is no room, and taken again once there is. */
	async fillDisk(step) {
		if (!mayMount) {
			return;
		}
		const ballast = join(this.disk, 'ballast');
		const fd = openSync(ballast, 'w');
		try {
			while (writeSync(fd, Buffer.alloc(4096)) === 4096);
		} catch (error) {
			assert.equal(error.code, 'ENOSPC');
		}
		closeSync(fd);
		const [id, session] = [...this.told].at(-1);
		const event = () => ({ ...input.note({ text: `full ${'y'.repeat(3000)}` }), key: `${id}-${session.keys.length}` });
		for (;;) {
			const wanted = event();
			const acks = await this.append(id, wanted);
			if (!acks) {
				break;
			}
			session.keys.push({ key: wanted.key, event: wanted, seq: acks[0].seq });
		}
		await this.look(id); // reads go on
		rmSync(ballast);
		this.full++;
		await this.work(step);
	}

	/** A backup becomes a data directory, and a server shows it under new epochs. */
	async restore() {
		const to = join(this.dir, 'restored');
		const newest = readdirSync(this.target).sort().at(-1);
		await this.run(0, 'restore', join(this.target, newest), to);
		await this.run(0, 'verify', to);
		const server = await Server.start(t, { dataDir: to, cwd: this.dir, env: this.env });
		for (const id of this.told.keys()) {
			const [was, is] = [await this.ask('GET', `/api/sessions/${id}`), await server.request('GET', `/api/sessions/${id}`)];
			assert.equal(is.status, 200, id);
			assert.notEqual(is.body.epoch, was.body.epoch);
			assert.ok(is.body.max_seq <= was.body.max_seq);
		}
		await server.stop();
		rmSync(to, { recursive: true });
	}

	async restart(isKill) {
		await (isKill ? this.server.kill9() : this.server.stop());
		this.kills += isKill;
		await this.run(0, 'verify', this.data);
		await this.server.restart();
	}

	/** What the process takes when nobody is connected and no session is in memory. */
	async measure() {
		this.clock.set(this.clock.shiftMs + HOUR);
		const proc = `/proc/${this.server.pid}`;
		const open = () => readdirSync(`${proc}/fd`).map(Number).length;
		let loaded;
		const pass = async () => {
			this.clock.set(this.clock.shiftMs + HOUR / 60);
			const { body } = await this.server.rawRequest('GET', '/metrics', { connection: 'close' });
			loaded = Number(/^holdfast_sessions_loaded (\d+)$/m.exec(body)[1]);
			return loaded === 0;
		};
		await eventually(pass, () => `all sessions to leave memory: ${loaded} have not`);
		this.clock.set(this.clock.shiftMs + HOUR);
		const fds = await eventually(() => (this.fds === undefined || open() <= this.fds) && open(), () => `descriptors to be closed: ${open()}, were ${this.fds}`);
		const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`${proc}/status`, 'utf8'))[1]);
		return { fds, rss };
	}

	async day(day) {
		await this.newSessions(day);
		for (let step = 0; step < steps; step++) {
			this.clock.set(this.clock.shiftMs + DAY / steps);
			await this.work(`day ${day} step ${step}`);
			if (step === Math.floor(steps / 3) && day % 3 === 2) {
				await this.fillDisk(`day ${day}`);
			}
			if (step === Math.floor(steps / 2)) {
				process.kill(this.server.pid, 'SIGHUP');
				await Promise.all([this.backup(), this.work(`day ${day} beside the backup`)]);
			}
		}
		await this.checkRetention();
		if (day % 3 === 2) {
			await this.restore();
		}
	}

	/** The first process lives a day and is killed; the second lives to the end, and is measured. */
	async live() {
		await this.begin();
		await this.endTurns();
		let first;
		for (let day = 1; day <= days; day++) {
			await this.day(day);
			if (day === 1) {
				await this.restart(true);
				continue;
			}
			const now = await this.measure();
			first ??= now;
			this.fds = first.fds;
			console.log(`day ${day}: ${this.appended} events, ${this.told.size} sessions live, ${now.rss} kB, ${now.fds} descriptors, ${readdirSync(join(this.data, 'journal')).length} segments`);
			assert.ok(now.rss <= (first.rss * 1.1 + this.kept) * this.shadows, `memory has grown from ${first.rss} to ${now.rss} kB`);
			assert.ok(readdirSync(join(this.data, 'journal')).length <= 3, 'old segments are gone');
		}
		await this.restart(false);
		await this.checkRetention();
		await this.server.stop();
		const { stdout } = await this.run(0, 'verify', this.data);
		assert.match(stdout, /: clean\n$/);
		assert.equal((await this.run(0, 'upgrade', this.data, '--dry-run')).stdout, 'everything is in the newest formats\n');
		assert.doesNotMatch(this.server.stderr, /Sanitizer|set aside/);
		console.log(`ok: ${days} days, ${this.appended} events, ${this.backups} backups, ${this.kills} kill, ${this.full} times a full disk; verify: ${stdout.trim()}`);
	}
}

let status = 0;
try {
	await new Week().live();
} catch (error) {
	console.log(error.stack);
	status = 1;
}
for (const f of undo) {
	await f();
}
process.exit(status);
