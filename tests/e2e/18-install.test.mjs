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

/** What bash offers for a line; the cursor is at its end. */
function complete(file, line) {
	const script = `source "$1"; COMP_WORDS=($2); [[ $2 != *' ' ]] || COMP_WORDS+=(""); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); compopt() { :; }; _holdfast; printf '%s\\n' "\${COMPREPLY[@]}"`;
	const { status, stdout, stderr } = spawnSync('bash', ['-c', script, '-', file, line], { encoding: 'utf8' });
	assert.deepEqual([status, stderr], [0, '']);
	return stdout.split('\n').filter(Boolean);
}

test('bash, zsh and fish complete each command with the options that its --help has', (t) => {
	const prefix = install(t);
	const bash = join(prefix, 'share/bash-completion/completions/holdfast');
	const zsh = readFileSync(join(prefix, 'share/zsh/site-functions/_holdfast'), 'utf8');
	const fish = readFileSync(join(prefix, 'share/fish/vendor_completions.d/holdfast.fish'), 'utf8');
	const help = (...words) => spawnSync(join(prefix, 'bin/holdfast'), words, { encoding: 'utf8' }).stdout;
	const commands = [...help('--help').matchAll(/^ {2}([a-z-]+) /gm)].map(([, name]) => name);
	assert.ok(commands.length > 15);
	assert.deepEqual(complete(bash, 'holdfast ').filter((word) => commands.includes(word)), commands);
	for (const command of commands.filter((name) => name !== 'limits')) {
		const options = [...help(command, '--help').matchAll(/^ {2}(--[a-z-]+)/gm)].map(([, flag]) => flag);
		assert.deepEqual(complete(bash, `holdfast ${command} --`), options, command);
		const rest = zsh.slice(zsh.indexOf(`\t${command})\n`));
		for (const option of options) {
			assert.ok(rest.slice(0, rest.indexOf('\t\t;;')).includes(`'*${option}`), `zsh: ${command} ${option}`);
			assert.ok(fish.includes(`complete -c holdfast -n '__holdfast_is ${command}' -l ${option.slice(2)} `), `fish: ${command} ${option}`);
		}
	}
	assert.deepEqual(complete(bash, 'holdfast serve --tls o'), ['on', 'off']);
	assert.deepEqual(complete(bash, 'holdfast token '), ['create', 'list', 'revoke']);
	assert.deepEqual(complete(bash, 'holdfast che'), ['check-config']);
	assert.deepEqual(complete(bash, 'holdfast serve --listen '), []);
});

test('units, rules and a configuration to copy are installed, and name the installed program', (t) => {
	const prefix = install(t);
	assert.match(readFileSync(join(prefix, 'lib/systemd/system/holdfast.service'), 'utf8'), /^ExecStart=\/usr\/local\/bin\/holdfast serve --config \/etc\/holdfast\/holdfast\.conf$/m);
	assert.match(readFileSync(join(prefix, 'share/holdfast/prometheus/holdfast.rules.yml'), 'utf8'), /alert: HoldfastDown/);
	const conf = join(prefix, 'share/doc/holdfast/holdfast.conf');
	const dir = scratchDir(t);
	const { status, stdout, stderr } = spawnSync(join(prefix, 'bin/holdfast'), ['check-config', '--config', conf, '--cwd', dir], { encoding: 'utf8' });
	assert.equal(status, 0, stderr);
	assert.match(stdout, /^data +\/var\/lib\/holdfast /m);
});
