// `meson install` brings all that a server needs: the programs, the page, which it finds by itself, and the manual page.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Server, binary, scratchDir } from '../support/server.mjs';

/** Installs into a directory of its own, and gives the place of everything. */
function install(t) {
	const dir = scratchDir(t);
	const { status, stdout, stderr } = spawnSync('meson', ['install', '-C', dirname(binary()), '--no-rebuild', '--destdir', dir], { encoding: 'utf8' });
	assert.equal(status, 0, stdout + stderr);
	return join(dir, 'usr/local');
}

test('an installed server serves its page without being told where it is', async (t) => {
	const prefix = install(t);
	const server = await Server.start(t, { program: join(prefix, 'bin/holdfast') });
	const page = await fetch(`${server.url}/`);
	assert.equal(page.status, 200);
	const html = await page.text();
	const cited = [...html.matchAll(/(?:src|href)="([^"#:]+)"/g)].map(([, path]) => path);
	assert.ok(cited.length > 5, html);
	for (const path of [...cited, 'observe.html', 'client/holdfast-client.js']) {
		assert.equal((await fetch(`${server.url}/${path}`)).status, 200, path);
	}
	for (const path of ['client/README.md', 'client/package.json', 'page/README.md', 'screenshots/tour.png']) {
		assert.equal((await fetch(`${server.url}/${path}`)).status, 404, `${path} is for the repository`);
	}
});

test('--web names another page, and an empty --web none', async (t) => {
	const program = join(install(t), 'bin/holdfast');
	const server = await Server.start(t, { program, args: ['--web', ''] });
	assert.equal((await fetch(`${server.url}/`)).status, 404);
});

test('the programs, the manual page and the documents are installed', (t) => {
	const prefix = install(t);
	for (const name of ['holdfast', 'holdfast-demo-agent', 'holdfast-replay-agent']) {
		assert.equal(spawnSync(join(prefix, 'bin', name), ['--version'], { encoding: 'utf8' }).status, 0, name);
	}
	const manual = readFileSync(join(prefix, 'share/man/man1/holdfast.1'), 'utf8');
	for (const word of ['\\-\\-listen', 'verify', 'new\\-epoch', 'soft_flush_ms']) {
		assert.ok(manual.includes(word), word);
	}
	assert.match(readFileSync(join(prefix, 'share/doc/holdfast/proto/protocol.md'), 'utf8'), /^# /);
});
