// An agent that asks for files outside of its directory, by every way there is: it gets none, and writes none.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, linkSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Server, scratchDir } from '../support/server.mjs';

const CASES = fileURLToPath(new URL('../unit/acp_agent_cases.sh', import.meta.url));
const SECRET = 'nobody must read this';
const WRITTEN = 'nobody must write this';

/** A directory for the agent with a secret beside it. */
function makePlaces(t) {
	const dir = scratchDir(t);
	const cwd = join(dir, 'in');
	const secret = join(dir, 'out', 'secret');
	mkdirSync(cwd);
	mkdirSync(join(dir, 'out'));
	writeFileSync(secret, SECRET);
	return { dir, cwd, secret };
}

/** Has an agent read and write each of these paths; gives what it was answered, in order, and the log. */
async function askFor(t, cwd, paths) {
	const requests = paths.flatMap((path, i) => [
		{ jsonrpc: '2.0', id: `r${i}`, method: 'fs/read_text_file', params: { sessionId: 's1', path } },
		{ jsonrpc: '2.0', id: `w${i}`, method: 'fs/write_text_file', params: { sessionId: 's1', path, content: WRITTEN } },
	]);
	writeFileSync(join(cwd, 'requests'), requests.map((request) => `${JSON.stringify(request)}\n`).join(''));
	const server = await Server.start(t, { cwd, agent: `exec sh ${CASES} files` });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	await observer.prompt('go');
	await observer.waitForEvent('turn_end', { ms: 60_000 });
	const log = readLog(server, id);
	const text = log.filter((e) => e.type === 'agent_message').map((e) => e.data.markdown).join('');
	return { log, text, answers: requests.map((request) => text.split(`'id':'${request.id}',`)[1]) };
}

test('no path leads out of the agent\'s directory', async (t) => {
	const { dir, cwd, secret } = makePlaces(t);
	symlinkSync(secret, join(cwd, 'link'));
	symlinkSync('../out/secret', join(cwd, 'relative'));
	symlinkSync('../out', join(cwd, 'folder'));
	symlinkSync('link', join(cwd, 'twice'));
	symlinkSync('/dev/zero', join(cwd, 'device'));
	symlinkSync('/proc/self/root', join(cwd, 'magic'));
	linkSync(secret, join(cwd, 'hard'));
	execFileSync('mkfifo', [join(cwd, 'fifo')]);
	mkdirSync(join(cwd, 'directory'));
	const paths = ['../out/secret', secret, `${cwd}/../out/secret`, `${cwd}/directory/../../out/secret`, `${cwd}/relative`, `${cwd}/folder/secret`,
		`${cwd}/folder/new`, `${cwd}/magic${secret}`, `${cwd}/fifo`, `${cwd}/directory`, `${cwd}2/new`, '/dev/zero'];
	// A write to these takes the place of the name, inside; what it points at, or shares its bytes with, stays.
	const names = ['link', 'twice', 'device', 'hard'].map((name) => join(cwd, name));
	const { log, text, answers } = await askFor(t, cwd, [...paths, ...names]);
	for (const [i, path] of paths.entries()) {
		assert.match(answers[2 * i], /^'error':/, `read ${path}`);
		assert.match(answers[2 * i + 1], /^'error':/, `write ${path}`);
	}
	names.forEach((path, i) => assert.match(answers[2 * (paths.length + i)], /^'error':/, `read ${path}`));
	assert.ok(!text.includes(SECRET));
	assert.equal(readFileSync(secret, 'utf8'), SECRET);
	assert.ok(!existsSync(join(dir, 'out', 'new')) && !existsSync(`${cwd}2`));
	assert.deepEqual(log.filter((e) => e.type === 'file_read'), []);
});

test('a name that is swapped for a symlink again and again leads nowhere else', async (t) => {
	const { cwd, secret } = makePlaces(t);
	// It never writes through a symlink of its own.
	const swap = `while :; do
		ln -sfn ../out/secret a; mv -Tf a swapped; echo inside > b; mv -Tf b swapped
		rm -rf folder; mkdir folder && echo inside > folder/secret; rm -rf folder; ln -sn ../out folder
	done 2>/dev/null`;
	const swapper = spawn('sh', ['-c', swap], { cwd, stdio: 'ignore' });
	try {
		const paths = Array.from({ length: 150 }, (_, i) => join(cwd, i % 2 ? 'swapped' : 'folder/secret'));
		const { text, answers } = await askFor(t, cwd, paths);
		assert.ok(!text.includes(SECRET));
		assert.equal(answers.filter(Boolean).length, 300);
	} finally {
		swapper.kill('SIGKILL');
	}
	assert.equal(readFileSync(secret, 'utf8'), SECRET);
});
