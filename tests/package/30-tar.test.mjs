// The archive for other distributions, in Debian 12 and 13 without any of the packages that it needs: as its README says, and moved.

import assert from 'node:assert/strict';
import { cpSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { DebianMachine, repository } from '../support/debian.mjs';
import { assertLists, librariesIn } from '../support/spdx.mjs';
import { eventually } from '../support/wait.mjs';

/** The archive that scripts/tar has built. */
function archive() {
	const dir = join(repository, 'build-package');
	const files = readdirSync(dir).filter((name) => /^holdfast-.*-linux-.*\.tar\.gz$/.test(name)).map((name) => join(dir, name));
	assert.ok(files.length > 0, 'scripts/tar builds the archive');
	return files.sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)[0];
}

/** The commands of a README, those of a service and the one to try it: its indented paragraphs. */
const commandsOf = (readme) => readme.split(/\n\n/).filter((text) => /^ {4}(bin|mkdir)/.test(text)).map((text) => text.replace(/^ {4}/gm, '').split('\n'));

for (const debian of ['12', '13']) {
	test(`Debian ${debian}: the archive brings all libraries but glibc's, and runs as its README says`, async (t) => {
		const machine = await DebianMachine.start(t, debian, (share) => {
			cpSync(archive(), join(share, basename(archive())));
			return [];
		});
		for (const name of ['libwebsockets', 'libuv1', 'libjansson4', 'libpq5', 'libcmark-gfm']) {
			assert.equal(machine.run(`dpkg-query -W -f '\${Package}\\n' '${name}*' 2>/dev/null || true`), '', `${name} is not there without the archive`);
		}
		machine.run(`cp /share/holdfast-*.tar.gz .; tar -xzf holdfast-*.tar.gz; mv holdfast-*/ /srv/elsewhere`);
		const readme = machine.run('cat /srv/elsewhere/README');
		const [[tried], service] = commandsOf(readme);
		const [, ofTheDocs] = /## The archive for other distributions[^]*?```sh\n([^]*?)\n```/.exec(readFileSync(join(repository, 'docs/install.md'), 'utf8'));
		assert.deepEqual(service, ofTheDocs.split('\n'));

		const libraries = librariesIn(machine.run('ldd /srv/elsewhere/bin/holdfast'));
		const foreign = libraries.filter((path) => !path.startsWith('/srv/elsewhere/bin/../lib/holdfast/'));
		assert.deepEqual(foreign.map((path) => basename(path)).filter((name) => !/^(ld-linux-x86-64|libc|libm|libdl|libpthread|libresolv|librt|libanl)\.so\.\d$/.test(name)), []);
		const list = machine.run('cat /srv/elsewhere/share/doc/holdfast/holdfast.spdx.json');
		const shipped = machine.run('ls /srv/elsewhere/lib/holdfast').trim().split('\n');
		const packages = assertLists(t, list, [...libraries, ...shipped]);
		for (const [name, { version }] of packages) {
			assert.match(version, /^\d/, name);
			assert.ok(name === 'holdfast' || name === 'libc6' || machine.run(`cat /srv/elsewhere/share/doc/holdfast/libraries/${name}`).length > 100, `the license of ${name}`);
		}
		assert.equal(readFileSync(archive().replace('.tar.gz', '.spdx.json'), 'utf8'), list);
		assert.match(readme, /but glibc's \(2\.\d+ or later\)/);

		machine.run('mkdir /srv/data /srv/work; chown nobody /srv/data /srv/work; chmod 700 /srv/data');
		const serve = `${tried.replace('./data', '/srv/data')} --cwd /srv/work --listen 127.0.0.1:8081 --seccomp on`;
		const isConfined = !machine.try(`cd /srv/elsewhere; ${serve.replace('/srv/data', '/srv/probe').replace('127.', '256.')} --sandbox`).stderr.includes('needs Landlock, which this kernel does not have');
		const trial = machine.start(t, `cd /srv/elsewhere; setpriv --reuid nobody --clear-groups ${serve} ${isConfined ? '--sandbox --sandbox-read /srv/elsewhere' : ''} 2>&1`);
		await eventually(() => machine.try('/srv/elsewhere/bin/holdfast sessions --data /srv/data').status === 0, 'the server', 60_000);
		await eventually(() => trial.text().includes('the server itself is under seccomp'), 'the server to say so');
		assert.equal(/agents are in a sandbox/.test(trial.text()), isConfined);
		assert.match(machine.run('/srv/elsewhere/bin/holdfast prompt tried list --create --data /srv/data'), /^> list$[^]*- /m, 'the turn is shown');

		for (const command of service) {
			machine.run(command);
		}
		assert.match(machine.run(service.at(-1)), /^http:\/\/127\.0\.0\.1:8080\/#token=\S+$/m);
		assert.equal(machine.run('systemctl is-active holdfast; systemctl is-enabled holdfast'), 'active\nenabled\n');
		machine.run('holdfast prompt first list --create --data /var/lib/holdfast');
		const page = machine.run('exec 3<>/dev/tcp/127.0.0.1/8080; printf "GET / HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\\r\\n" >&3; cat <&3');
		assert.match(page, /^HTTP\/1\.1 200 [^]*<!doctype html>/i);
		machine.run('systemctl restart holdfast; test -s /opt/holdfast/share/man/man1/holdfast.1; test -s /opt/holdfast/share/bash-completion/completions/holdfast');
		assert.match(machine.run('holdfast sessions --data /var/lib/holdfast'), /first/);
	});
}
