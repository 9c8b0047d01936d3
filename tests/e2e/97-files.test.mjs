// The files of a session's directory, for those who type a path: which come, in which order, and that nothing else is told.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import WebSocket from 'ws';
import { HoldfastClient, completeFiles } from '../../web/client/holdfast-client.js';
import { randomNumbers } from '../support/recording.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { Server, demoAgent, scratchDir } from '../support/server.mjs';
import { ownToken } from '../support/tokens.mjs';
import { defer, eventually } from '../support/wait.mjs';

function write(dir, files) {
	for (const [path, text] of Object.entries(files)) {
		mkdirSync(join(dir, dirname(path)), { recursive: true });
		writeFileSync(join(dir, path), text);
	}
}

const PROJECT = {
	'main.c': '',
	'README.md': '',
	'src/main.c': '',
	'src/map/one.c': '',
	'src/Makefile': '',
	'src/net/http_api.c': '',
	'src/net/http_files.c': '',
	'lib/maps/main.js': '',
	'lib/domain.c': '',
	'docs/a "quoted" name.md': '',
	'docs/ümlaut ✓.md': '',
	'.gitignore': 'build/\n*.log\n/secret.txt\n',
	'.github/main.yml': '',
	'.env': '',
	'build/main.o': '',
	'build/deep/main.d': '',
	'src/main.log': '',
	'secret.txt': '',
	'src/secret.txt': '',
};

/** A server on whose directory one session works: `list(prefix)` gives files, or status and code. */
async function start(t, { files = PROJECT, before, ...options } = {}) {
	const dir = scratchDir(t);
	const cwd = join(dir, 'project');
	write(cwd, files);
	before?.(cwd, dir);
	const server = await Server.start(t, { cwd, agent: demoAgent(), ...options });
	const { id } = await server.createSession({ id: 's' });
	const ask = (query, options) => server.request('GET', `/api/sessions/${id}/files?${new URLSearchParams(query)}`, options);
	const list = async (prefix, more = {}, options = {}) => {
		const { status, body } = await ask({ prefix, ...more }, options);
		if (status !== 200) {
			return [status, body.error.code];
		}
		assertValid(check.rest('files')(body));
		return body.files;
	};
	return { dir, cwd, server, ask, list };
}

test('what is typed finds files there first, then below, then those that have it in their name', async (t) => {
	const { cwd, ask, list } = await start(t);
	assert.deepEqual((await ask({})).body, { cwd, files: ['README.md', 'docs/', 'lib/', 'main.c', 'src/'], has_more: false });
	assert.deepEqual(await list('ma'), ['main.c', 'lib/maps/', 'src/Makefile', 'src/main.c', 'src/map/', 'lib/maps/main.js', 'lib/domain.c']);
	assert.deepEqual(await list('MAI'), ['main.c', 'src/main.c', 'lib/maps/main.js', 'lib/domain.c']);
	assert.deepEqual(await list('src/'), ['src/Makefile', 'src/main.c', 'src/map/', 'src/net/', 'src/secret.txt']);
	assert.deepEqual(await list('src/ma'), ['src/Makefile', 'src/main.c', 'src/map/']);
	assert.deepEqual(await list('./src/mai'), ['./src/main.c'], 'as it was typed');
	assert.deepEqual(await list('src/api'), ['src/net/http_api.c']);
	assert.deepEqual(await list('net/ht'), ['src/net/http_api.c', 'src/net/http_files.c'], 'from the middle of a path');
	assert.deepEqual(await list('et/ht'), []);
	assert.deepEqual(await list('docs/'), ['docs/a "quoted" name.md', 'docs/ümlaut ✓.md']);
	assert.deepEqual(await list('docs/üml'), ['docs/ümlaut ✓.md']);
	assert.deepEqual(await list('nothing'), []);
	const two = (await ask({ prefix: 'ma', limit: '2' })).body;
	assert.deepEqual([two.files, two.has_more], [['main.c', 'lib/maps/'], true]);
});

test('hidden and ignored files are left out, unless they are named', async (t) => {
	const { list } = await start(t, { before: (cwd) => write(cwd, { 'src/.gitignore': 'net/*\n!http_api.c\n' }) });
	assert.deepEqual(await list('.'), ['.env', '.github/', '.gitignore']);
	assert.deepEqual(await list('.gi'), ['.github/', '.gitignore']);
	assert.deepEqual(await list('.github/'), ['.github/main.yml']);
	assert.deepEqual(await list('bui'), []);
	assert.deepEqual(await list('build/'), ['build/deep/', 'build/main.o'], 'who names it wants it');
	assert.deepEqual(await list('build/main'), ['build/main.o', 'build/deep/main.d']);
	assert.deepEqual(await list('secret'), ['src/secret.txt'], 'ignored at the top only');
	assert.deepEqual(await list('src/main'), ['src/main.c']);
	assert.deepEqual(await list('src/net/'), ['src/net/http_api.c'], 'not ignored after all');
	assert.deepEqual(await list('http'), ['src/net/http_api.c']);
});

test('nothing outside of the directory is told, and nothing of the data directory', async (t) => {
	const { dir, cwd, server, list } = await start(t, {
		before: (at, above) => {
			write(above, { 'outside/main.c': '', 'project-two/main.c': '' });
			symlinkSync(join(above, 'outside'), join(at, 'away'));
			symlinkSync('../outside', join(at, 'away-too'));
			symlinkSync('../outside/main.c', join(at, 'main-away.c'));
			symlinkSync(join(above, 'nowhere'), join(at, 'main-nowhere.c'));
			symlinkSync('src', join(at, 'inside'));
			symlinkSync('src/main.c', join(at, 'main-inside.c'));
			symlinkSync('..', join(at, 'src/up'));
			symlinkSync('loop', join(at, 'loop'));
		},
	});
	assert.deepEqual(await list('main'), ['main-inside.c', 'main.c', 'src/main.c', 'lib/maps/main.js', 'lib/domain.c']);
	assert.deepEqual(await list(''), ['README.md', 'docs/', 'inside/', 'lib/', 'main-inside.c', 'main.c', 'src/']);
	assert.deepEqual(await list('inside/ma'), ['inside/Makefile', 'inside/main.c', 'inside/map/']);
	assert.deepEqual(await list('src/up/mai'), ['src/up/main-inside.c', 'src/up/main.c', 'src/up/src/main.c', 'src/up/lib/maps/main.js', 'src/up/lib/domain.c']);
	for (const prefix of ['away/', 'away/ma', 'away-too/', '../', '../outside/', '..', 'src/../../outside/', 'src/../ma', '/', `${dir}/outside/`, `${cwd}/`, '/etc/', '//', 'away/../', 'loop/', 'main.c/', '~/']) {
		assert.deepEqual(await list(prefix), [], prefix);
	}
	assert.deepEqual(readdirSync(server.dataDir).includes('access-token'), true);

	// The data directory in the session's: all but its workspace.
	const at = scratchDir(t);
	const data = join(at, 'data');
	const own = await Server.start(t, { cwd: at, dataDir: data, agent: demoAgent() });
	write(at, { 'access/file': '', 'data/workspace/access.c': '', 'data-2/access.md': '' });
	symlinkSync('data/access-token', join(at, 'access-link'));
	symlinkSync('data', join(at, 'data-link'));
	symlinkSync('data/workspace/access.c', join(at, 'access-work'));
	await own.createSession({ id: 's' });
	const find = async (prefix) => (await own.request('GET', `/api/sessions/s/files?prefix=${encodeURIComponent(prefix)}`)).body.files;
	assert.deepEqual(await find('access'), ['access-work', 'access/', 'data-2/access.md']);
	assert.deepEqual(await find('da'), ['data-2/']);
	for (const prefix of ['data/', 'data/acc', 'data/sessions/', 'data-link/', 'data-link/acc', 'data/../data/', 'data//']) {
		assert.deepEqual(await find(prefix), [], prefix);
	}
	assert.deepEqual(await find('data/workspace/'), ['data/workspace/access.c']);
	assert.deepEqual(await find('data-link/workspace/a'), ['data-link/workspace/access.c']);

	// The session's in the data directory.
	const below = join(scratchDir(t), 'data');
	write(below, { 'private/file': '' });
	const inside = await Server.start(t, { dataDir: below, cwd: join(below, 'private'), agent: demoAgent() });
	await inside.createSession({ id: 's' });
	assert.deepEqual((await inside.request('GET', '/api/sessions/s/files')).body.files, []);
});

test('who may not prompt, or must not see tools, gets no names', async (t) => {
	const { list, ask, server } = await start(t);
	const as = (role, more, sessions = ['*']) => ({ headers: { authorization: `Bearer ${ownToken(server, role, sessions, more)}` } });
	const hiding = (hide) => as('controller', { holdfast: { role: 'controller', sessions: ['*'], hide } });
	assert.deepEqual(await list('READ', {}, as('controller')), ['README.md']);
	assert.deepEqual(await list('READ', {}, as('observer')), [403, 'forbidden']);
	assert.deepEqual(await list('READ', {}, as('producer')), [403, 'forbidden']);
	assert.deepEqual(await list('READ', {}, as('controller', {}, ['other'])), [404, 'not_found']);
	assert.deepEqual(await list('READ', {}, hiding(['tools'])), [403, 'forbidden']);
	assert.deepEqual((await ask({ prefix: 'READ' }, hiding(['thoughts']))).body, { files: ['README.md'], has_more: false });
	assert.deepEqual(await list('x'.repeat(1024)), []);
	for (const query of [{ prefix: 'x'.repeat(1025) }, { limit: '0' }, { limit: '201' }, { limit: '-1' }, { limit: '' }, { more: '1' }]) {
		const { status, body } = await ask(query);
		assert.deepEqual([status, body.error.code], [400, 'bad_request'], JSON.stringify(query).slice(0, 60));
	}
	for (const raw of ['prefix=%ff', 'prefix=%00', 'prefix=a&prefix=b', 'prefix=%zz']) {
		assert.equal((await server.request('GET', `/api/sessions/s/files?${raw}`)).status, 400, raw);
	}
	assert.equal((await server.request('POST', '/api/sessions/s/files', { json: {} })).status, 405);
	assert.equal((await server.request('GET', '/api/sessions/none/files')).status, 404);

	const bare = await Server.start(t, { agent: null });
	await bare.createSession({ id: 's' });
	const { status, body } = await bare.request('GET', '/api/sessions/s/files');
	assert.deepEqual([status, body.error.code], [409, 'no_agent']);
});

test('of a session that is not made yet, for those who can make it, and only where it could work', async (t) => {
	const { dir, cwd, server } = await start(t, { before: (at, above) => {
		write(above, { 'outside/main.c': '' });
		symlinkSync('../outside', join(at, 'away'));
	} });
	const ask = (query, options) => server.request('GET', `/api/files?${new URLSearchParams(query)}`, options);
	const list = async (query, options) => {
		const { status, body } = await ask(query, options);
		return status === 200 ? body.files : [status, body.error.code];
	};
	const { body } = await ask({ prefix: 'src/mai' });
	assertValid(check.rest('files')(body));
	assert.deepEqual(body, { cwd, files: ['src/main.c'], has_more: false });
	assert.deepEqual((await ask({ cwd: join(cwd, 'src/map/..'), prefix: 'mai' })).body, { cwd: join(cwd, 'src'), files: ['main.c', 'main.log'], has_more: false });
	for (const away of [join(dir, 'outside'), join(cwd, 'away'), join(cwd, 'none'), join(cwd, 'main.c'), '/', '/etc', 'src', '..', '']) {
		assert.deepEqual(await list({ cwd: away, prefix: 'm' }), [400, 'bad_directory'], away);
	}
	assert.deepEqual(await list({ agent: 'nobody' }), [400, 'unknown_agent']);
	assert.deepEqual(await list({ more: '1' }), [400, 'bad_request']);
	assert.deepEqual(await list({ limit: '201' }), [400, 'bad_request']);
	assert.equal((await server.request('POST', '/api/files', { json: {} })).status, 405);
	const as = (role, sessions, more) => ({ headers: { authorization: `Bearer ${ownToken(server, role, sessions, more)}` } });
	assert.deepEqual(await list({ prefix: 'READ' }, as('controller', ['team-*'])), ['README.md']);
	assert.deepEqual(await list({ prefix: 'READ' }, as('controller', ['s'])), [403, 'forbidden'], 'a token for one session makes none');
	assert.deepEqual(await list({ prefix: 'READ' }, as('observer', ['*'])), [403, 'forbidden']);
	assert.deepEqual(await list({ prefix: 'READ' }, as('producer', ['*'])), [403, 'forbidden']);
	assert.deepEqual(await list({ prefix: 'READ' }, as('controller', ['*'], { holdfast: { role: 'controller', sessions: ['*'], hide: ['tools'] } })), [403, 'forbidden']);
	const where = { base: server.url, getToken: () => server.token };
	assert.deepEqual((await completeFiles({ cwd: join(cwd, 'src') }, 'mai', {}, where)).files, ['main.c', 'main.log']);

	const bare = await Server.start(t, { agent: null });
	const none = await bare.request('GET', '/api/files');
	assert.deepEqual([none.status, none.body.error.code], [400, 'unknown_agent']);
});

test('a tree that is too large is looked at in part, what is near first', async (t) => {
	const { list, ask } = await start(t, {
		files: { 'near.c': '' },
		before: (cwd) => {
			for (let i = 0; i < 25; i++) {
				const dir = join(cwd, `d${i}`, 'deep');
				mkdirSync(dir, { recursive: true });
				for (let j = 0; j < 1000; j++) {
					writeFileSync(join(dir, `near-${i}-${j}`), '');
				}
			}
		},
	});
	const { body } = await ask({ prefix: 'near', limit: '200' });
	assert.deepEqual([body.files.length, body.files[0], body.has_more], [200, 'near.c', true]);
	const none = (await ask({ prefix: 'far' })).body;
	assert.deepEqual([none.files, none.has_more], [[], true], 'it has not looked everywhere');
	assert.deepEqual(await list('d2/deep/near-2-99'), ['d2/deep/near-2-99', ...Array.from({ length: 10 }, (_, i) => `d2/deep/near-2-99${i}`)]);
});

test('patterns that are made to be slow are not', async (t) => {
	const { list } = await start(t, {
		before: (cwd) => {
			write(cwd, { [`${'a'.repeat(200)}.c`]: '', 'x/.gitignore': '[\n[[:\n[]\n\\\n***/***\n!\n/\n//\n**/\n' });
			appendFileSync(join(cwd, '.gitignore'), `${'*a'.repeat(100)}b\n`.repeat(500) + `${'**/a*/'.repeat(40)}b\n`.repeat(500) + `${'x'.repeat(70_000)}\n`);
			mkdirSync(join(cwd, 'fifo'));
			execFileSync('mkfifo', [join(cwd, 'fifo/.gitignore'), join(cwd, 'fifo/main.fifo')]);
		},
	});
	assert.deepEqual(await list('aaaa'), [`${'a'.repeat(200)}.c`]);
	assert.deepEqual(await list('fifo/'), [], 'what is no file is not listed, nor read');
});

test('what is ignored is what git ignores', async (t) => {
	const random = randomNumbers(7);
	const pick = (list) => list[random(list.length)];
	const names = ['a', 'b', 'ab', 'abc', 'a.c', 'b.c', 'x y', 'log', 'a-b'];
	const globs = ['a', 'b*', '*.c', '?', 'a?c', '[ab]', '[!a]*', '*', '**', 'a*c', '[a-b].c', 'x\\ y', 'l[[:alpha:]]g', '\\a', 'ab '];
	const { cwd, server } = await start(t, { files: { 'a/a/a': '' } });
	execFileSync('git', ['init', '-q', cwd], { env: { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null' } });
	const find = async (dir) => (await server.request('GET', `/api/sessions/s/files?limit=200&prefix=${encodeURIComponent(dir)}`)).body.files;
	const below = async (dir) => (await Promise.all((await find(dir)).map((path) => (path.endsWith('/') ? below(path) : [path])))).flat();
	for (let round = 0; round < 40; round++) {
		for (const name of readdirSync(cwd).filter((name) => name !== '.git')) {
			rmSync(join(cwd, name), { recursive: true });
		}
		for (let i = 0; i < 40; i++) {
			const path = Array.from({ length: 1 + random(4) }, () => pick(names));
			try {
				write(cwd, { [path.join('/')]: '' });
			} catch {} // a file is where a directory would be
		}
		const pattern = () => `${pick(['', '', '!'])}${pick(['', '', '/', '**/'])}${Array.from({ length: 1 + random(3) }, () => pick(globs)).join('/')}${pick(['', '', '/', '/**'])}`;
		const text = () => Array.from({ length: 1 + random(4) }, pattern).join(pick(['\n', '\r\n']));
		write(cwd, { '.gitignore': text() });
		const dirs = readdirSync(cwd, { withFileTypes: true }).filter((e) => e.isDirectory() && e.name !== '.git');
		if (dirs.length > 0) {
			write(cwd, { [`${pick(dirs).name}/.gitignore`]: text() });
		}
		const wanted = execFileSync('git', ['-C', cwd, 'ls-files', '-z', '--others', '--exclude-per-directory=.gitignore']).toString().split('\0').filter((path) => path && !path.endsWith('.gitignore'));
		assert.deepEqual((await below('')).sort(), wanted.sort(), `round ${round}`);
	}
});

test('the client library completes files, and stops when it is told to', async (t) => {
	const { cwd, server } = await start(t);
	const client = new HoldfastClient({ base: server.url, sessionId: 's', getToken: () => server.token, WebSocket });
	defer(t, () => client.close());
	assert.deepEqual(await client.completeFiles('src/mai'), { cwd, files: ['src/main.c'], has_more: false });
	assert.deepEqual((await client.completeFiles('ma', { limit: 1 })).files, ['main.c']);
	assert.equal((await completeFiles('s', undefined, undefined, { base: server.url, getToken: () => server.token })).files.length, 5);
	const stop = new AbortController();
	const waits = client.completeFiles('ma', { signal: stop.signal });
	stop.abort();
	await assert.rejects(waits, { name: 'AbortError' });
	await assert.rejects(client.completeFiles('ma', { limit: 1000 }), { code: 'bad_request' });
	// Many at once, of which most are given up: all others are answered, and so is the next one.
	const many = Array.from({ length: 60 }, (_, i) => {
		const give = new AbortController();
		const asked = client.completeFiles('m', { signal: give.signal }).then(({ files }) => files.length, (error) => error.code ?? error.name);
		if (i % 3) {
			setImmediate(() => give.abort());
		}
		return asked;
	});
	const answers = new Set(await Promise.all(many));
	assert.ok([...answers].every((answer) => [10, 20, 'server_busy'].includes(answer)), [...answers].join());
	await eventually(async () => (await client.completeFiles('src/mai')).files.length === 1, 'an answer');
	await server.stop();
});
