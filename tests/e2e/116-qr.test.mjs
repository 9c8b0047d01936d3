// serve --qr: what a phone reads from the terminal is the link that logs in, at an address that the phone reaches.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Server, binary, scratchDir } from '../support/server.mjs';
import { HERE, makePair, netnsFault } from '../support/netns.mjs';
import { defer, eventually } from '../support/wait.mjs';

const fault = netnsFault();

/** A server whose stderr is a terminal; gives {dir, out()} when it listens, and ends it with the test. */
async function serveOnTerminal(t, args, prefix = []) {
	const scratch = scratchDir(t);
	const dir = join(scratch, 'data');
	const words = [...prefix, binary(), 'serve', '--data', dir, '--cwd', scratch, ...args].map((word) => `'${word}'`);
	const child = spawn('script', ['--quiet', '--return', '--flush', '--command', `exec ${words.join(' ')}`, join(scratch, 'typescript')], { stdio: ['ignore', 'pipe', 'pipe'] });
	const ended = once(child, 'close');
	let out = '';
	child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
	child.stderr.setEncoding('utf8').on('data', (text) => (out += text));
	const shown = () => out.replaceAll('\r', '');
	await eventually(() => /listening on/.test(shown()), () => `the server to listen\n${out}`);
	const stop = async () => {
		process.kill(Number(readFileSync(join(dir, 'lock'), 'utf8')), 'SIGTERM');
		assert.equal((await ended)[0], 0, out);
	};
	defer(t, async () => child.exitCode === null && stop());
	return { dir, shown, ended, stop };
}

/** The picture that a terminal shows of lines of half blocks, dark on light, as a file of grey pixels. */
function paint(lines, file) {
	const scale = 6;
	const rows = lines.flatMap((line) => {
		const [, text] = /^\u001b\[38;5;16;48;5;231m([ ▀▄█]+)\u001b\[0m$/.exec(line) ?? assert.fail(JSON.stringify(line));
		return ['▀█', '▄█'].map((dark) => [...text].map((c) => (dark.includes(c) ? 0 : 255)));
	});
	const width = rows[0].length * scale;
	const pixels = Buffer.concat(rows.flatMap((row) => Array(scale).fill(Buffer.from(row.flatMap((grey) => Array(scale).fill(grey))))));
	writeFileSync(file, Buffer.concat([Buffer.from(`P5 ${width} ${pixels.length / width} 255\n`), pixels]));
}

/** What a reader of codes makes of what the terminal shows. */
function readCode(t, shown) {
	const file = join(scratchDir(t), 'code.pgm');
	paint(shown.split('\n').filter((line) => line.startsWith('\u001b')), file);
	const { status, stdout, stderr } = spawnSync('zbarimg', ['--quiet', '--raw', '--nodbus', file], { encoding: 'utf8' });
	assert.equal(status, 0, stderr);
	return stdout.trimEnd();
}

const isWhole = (shown) => /(\u001b\[38.*\n)+$/.test(shown) && shown.split('\n').filter((line) => line.startsWith('\u001b')).length > 20;
const tokenOf = (dir) => readFileSync(join(dir, 'access-token'), 'utf8').trim();

test('the code has the link that holdfast url prints, at --url', async (t) => {
	const { dir, shown } = await serveOnTerminal(t, ['--listen', '127.0.0.1:0', '--url', 'https://holdfast.example.org', '--qr']);
	await eventually(() => isWhole(shown()), () => `the code\n${shown()}`);
	const link = readCode(t, shown());
	assert.equal(link, `https://holdfast.example.org/#token=${tokenOf(dir)}`);
	assert.equal(spawnSync(binary(), ['url', '--data', dir], { encoding: 'utf8' }).stdout, `${link}\n`);
	assert.match(shown(), /^holdfast: this code opens https:\/\/holdfast\.example\.org on a phone, and logs in$/m);
});

if (fault && process.getuid() === 0) {
	test('root may make network namespaces', () => assert.fail(fault));
}

for (const [listen, where] of fault ? [] : [['0.0.0.0:0', HERE], [`${HERE}:0`, HERE]]) {
	test(`of ${listen.replace(HERE, 'an address')} the code has the address of this machine that others reach`, async (t) => {
		const { here, there } = makePair(t);
		const args = ['--listen', '127.0.0.1:0', '--listen', listen, '--tls', 'off', '--qr'];
		const { dir, shown } = await serveOnTerminal(t, args, ['ip', 'netns', 'exec', here]);
		await eventually(() => isWhole(shown()), () => `the code\n${shown()}`);
		const link = new URL(readCode(t, shown()));
		assert.deepEqual([link.hostname, link.hash], [where, `#token=${tokenOf(dir)}`]);
		const script = 'fetch(process.argv[1] + "/api/sessions", { headers: { authorization: `Bearer ${process.argv[2]}` } }).then((r) => console.log(r.status))';
		const asked = spawnSync('ip', ['netns', 'exec', there, process.execPath, '-e', script, link.origin, tokenOf(dir)], { encoding: 'utf8' });
		assert.equal(asked.stdout, '200\n', asked.stderr);
	});
}

test('where a phone cannot get to, there is no code but the reason', async (t) => {
	for (const [args, why] of [
		[['--listen', '127.0.0.1:0'], /--qr: no code is shown: only this machine reaches the server: listen on/],
		[['--listen', '127.0.0.1:0', '--url', 'http://localhost:8080'], /--qr: no code is shown: --url is an address that only this machine reaches/],
	]) {
		const { shown } = await serveOnTerminal(t, [...args, '--qr']);
		await eventually(() => why.test(shown()), () => shown());
		assert.doesNotMatch(shown(), /\u001b/);
	}
});

test('no log gets the link', async (t) => {
	const server = await Server.start(t, { args: ['--url', 'https://holdfast.example.org', '--qr'] });
	await eventually(() => server.stderr.includes('--qr'));
	assert.match(server.stderr, /--qr: no code is shown: stderr is not a terminal, and the link must not be logged/);
	assert.ok(!server.stderr.includes(server.token));
	assert.doesNotMatch(server.stderr, /[▀▄█]/);
});
