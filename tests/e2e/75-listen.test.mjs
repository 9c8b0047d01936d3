// --listen is taken at its word: the server listens on what was asked, on all of it and on nothing else, or it ends with 1 and says
// why. Read from the kernel's table of sockets, and tried from another machine (a network namespace).

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { HERE, HERE6, listening, makePair, netnsFault } from '../support/netns.mjs';
import { inDirectory } from '../support/parts.mjs';
import { binary, scratchDir } from '../support/server.mjs';
import { defer, within } from '../support/wait.mjs';

const fault = netnsFault();
const HOSTS = `127.0.0.1 localhost\n::1 localhost\n${HERE} wide.test\n${HERE6} wide.test\n127.0.0.1 four.test\n::1 six.test\n192.0.2.7 elsewhere.test\n`;

/** Starts `holdfast serve --listen ADDRESS`, by `before` (a command that runs it); resolves when it listens or has ended: {pid, code, stderr}. */
async function serve(t, address, { before = [], dir = scratchDir(t) } = {}) {
	const [command, ...args] = [...before, binary(), 'serve', '--tls', 'off', '--listen', address, '--data', join(dir, 'data'), ...inDirectory(dir)];
	const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
	const started = { pid: child.pid, code: null, stderr: '' };
	const closed = once(child, 'close');
	closed.then(([code, signal]) => (started.code = code ?? signal));
	defer(t, async () => {
		child.kill('SIGTERM');
		await within(closed, 20_000, () => `the server to end\n${started.stderr}`).finally(() => child.kill('SIGKILL'));
	});
	child.stderr.setEncoding('utf8');
	const heard = new Promise((resolve) => child.stderr.on('data', (text) => {
		started.stderr += text;
		if (/listening on/.test(started.stderr)) {
			resolve();
		}
	}));
	await within(Promise.race([heard, closed]), 30_000, () => `the server to listen or to end\n${started.stderr}`);
	return started;
}

/** A command prefix: in the namespace, with names of our own. */
function inside(t, name) {
	const file = join(scratchDir(t), 'hosts');
	writeFileSync(file, HOSTS);
	return ['ip', 'netns', 'exec', name, 'sh', '-c', 'mount --bind "$0" /etc/hosts && exec "$@"', file];
}

/** What /healthz answers at `address` (an URL's host) from the namespace `name`: a status, or the code of an error. */
function reach(name, address, host) {
	const script = `const [address, host] = process.argv.slice(1);
		const request = require('node:http').get({ ...require('node:url').urlToHttpOptions(new URL('http://' + address + '/healthz')), headers: { host }, timeout: 5000 }, (a) => { console.log(a.statusCode); process.exit(); });
		request.on('error', (e) => console.log(e.code)).on('timeout', () => { console.log('ETIMEDOUT'); process.exit(); });`;
	const { stdout, stderr } = spawnSync('ip', ['netns', 'exec', name, process.execPath, '-e', script, address, host], { encoding: 'utf8' });
	assert.equal(stderr, '');
	return stdout.trim();
}

/** Asserts that it listens on exactly these. */
function assertListens({ pid, code, stderr }, addresses) {
	assert.equal(code, null, stderr);
	assert.deepEqual(listening(pid), [...addresses].sort(), stderr);
}

/** Asserts that it has ended with 1, said why in `words`, and did not claim to listen. */
function assertRefused({ code, stderr }, ...words) {
	assert.equal(code, 1, stderr);
	assert.doesNotMatch(stderr, /listening on/);
	for (const word of words) {
		assert.match(stderr, word);
	}
}

test('on a free port it says which, and listens there only', async (t) => {
	for (const address of ['127.0.0.1', '127.0.0.2', '0.0.0.0']) {
		const server = await serve(t, `${address}:0`);
		const [, url] = /listening on (http:\/\/\S+)/.exec(server.stderr) ?? [];
		const { port } = new URL(url);
		assert.notEqual(port, '0');
		assertListens(server, [`${address}:${port}`]);
	}
});

test('what cannot be listened on ends the server with 1', async (t) => {
	assertRefused(await serve(t, 'no-such-name.invalid:8080'), /no-such-name\.invalid/);
	assertRefused(await serve(t, '192.0.2.1:0'), /192\.0\.2\.1/, /assign|not.*address|address.*not/i);
	assertRefused(await serve(t, '[2001:db8::1]:0'), /2001:db8::1/);
	const first = await serve(t, '127.0.0.1:0');
	const [, port] = /listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(first.stderr);
	assertRefused(await serve(t, `127.0.0.1:${port}`), new RegExp(port), /in use/i);
	assertListens(first, [`127.0.0.1:${port}`]);
});

test('what is no address is refused', async (t) => {
	for (const address of ['', ':', '127.0.0.1:65536', '127.0.0.1:-1', '127.0.0.1:x', '127.0.0.1:80 ', '256.0.0.1:0', '1.2.3:0:0', '[::1:0', '[::1]0', '[::1]x:0', 'a b:0', `${'x'.repeat(300)}:0`]) {
		const { code, stderr } = await serve(t, address);
		assert.ok(code !== null && code !== 0, `${JSON.stringify(address)} is taken: ${stderr}`);
		assert.doesNotMatch(stderr, /listening on|Sanitizer/, address);
	}
});

if (fault && process.getuid() === 0) {
	test('root may make network namespaces', () => assert.fail(fault));
} else if (fault) {
	console.log(`no network namespaces here (${fault}): who reaches the server from elsewhere is not tested`);
}

fault ?? test('each address is listened on and no other, as another machine sees it', async (t) => {
	const { here, there } = makePair(t);
	const before = inside(t, here);
	let port = 8100;
	for (const [address, wanted, reachable] of [
		['127.0.0.1', ['127.0.0.1'], false], ['127.0.0.2', ['127.0.0.2'], false], ['[::1]', ['[::1]'], false], ['localhost', ['127.0.0.1', '[::1]'], false], ['four.test', ['127.0.0.1'], false], ['six.test', ['[::1]'], false],
		['0.0.0.0', ['0.0.0.0'], 'v4'], [HERE, [HERE], 'v4'], [`[${HERE6}]`, [`[${HERE6}]`], 'v6'], ['wide.test', [HERE, `[${HERE6}]`], 'both'], ['[::]', ['[::]'], 'v6'],
	]) {
		await t.test(address, async (sub) => {
			const at = `${address}:${++port}`;
			const server = await serve(sub, at, { before });
			assertListens(server, wanted.map((a) => `${a}:${port}`));
			const answers = { v4: reach(there, `${HERE}:${port}`, 'localhost'), v6: reach(there, `[${HERE6}]:${port}`, 'localhost') };
			for (const [kind, answer] of Object.entries(answers)) {
				if (!(address === '[::]' && kind === 'v4')) { // whether it is both is the system's to say
					assert.equal(answer, reachable === kind || reachable === 'both' ? '200' : 'ECONNREFUSED', `${kind} from elsewhere`);
				}
			}
			if (!reachable) {
				assert.equal(reach(here, `${wanted[0]}:${port}`, 'localhost'), '200', 'from the machine itself');
				assert.equal(reach(here, `${HERE}:${port}`, 'localhost'), 'ECONNREFUSED', 'from the machine itself, by its other address');
			}
		});
	}
});

fault ?? test('a name is all its addresses or nothing', async (t) => {
	const { here } = makePair(t);
	const before = inside(t, here);
	const six = await serve(t, '[::1]:8100', { before });
	assertListens(six, ['[::1]:8100']);
	assertRefused(await serve(t, 'localhost:8100', { before }), /8100/, /in use/i);
	assertRefused(await serve(t, 'elsewhere.test:8101', { before }), /elsewhere\.test|192\.0\.2\.7/);
	const both = await serve(t, 'localhost:0', { before });
	const addresses = listening(both.pid);
	assert.deepEqual(addresses.map((a) => a.replace(/:\d+$/, '')).sort(), ['127.0.0.1', '[::1]']);
	for (const address of addresses) {
		assert.match(both.stderr, new RegExp(`:${address.split(':').at(-1)}\\b`), 'it says which port');
	}
});

fault ?? test('without IPv6', async (t) => {
	const { here, there } = makePair(t, { ipv6: false });
	const before = inside(t, here);
	let port = 8100;
	for (const [address, wanted, answer] of [['127.0.0.1', ['127.0.0.1'], 'ECONNREFUSED'], ['127.0.0.2', ['127.0.0.2'], 'ECONNREFUSED'], ['localhost', ['127.0.0.1'], 'ECONNREFUSED'], ['0.0.0.0', ['0.0.0.0'], '200'], [HERE, [HERE], '200']]) {
		await t.test(address, async (sub) => {
			assertListens(await serve(sub, `${address}:${++port}`, { before }), wanted.map((a) => `${a}:${port}`));
			assert.equal(reach(there, `${HERE}:${port}`, 'localhost'), answer);
		});
	}
	assertRefused(await serve(t, '[::1]:8099', { before }), /::1/);
	assertRefused(await serve(t, 'six.test:8099', { before }), /six\.test|::1/);
});

fault ?? test('a port that one may not have', async (t) => {
	const { here } = makePair(t);
	const nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--bounding-set=-all', '--inh-caps=-all'];
	const before = [...inside(t, here), ...nobody];
	const dir = scratchDir(t);
	chmodSync(dir, 0o777);
	assertRefused(await serve(t, '127.0.0.1:80', { before, dir }), /:80\b/, /permission|not permitted/i);
});
