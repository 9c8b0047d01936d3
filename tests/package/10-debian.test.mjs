// The Debian packages, in Debian 12 and 13 with nothing else installed: from the package to a watched session with the commands of
// docs/install.md, upgraded over data of an earlier version, removed and purged.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, test } from 'node:test';
import { DebianMachine, packageFor, repository } from '../support/debian.mjs';
import { assertLists, librariesIn } from '../support/spdx.mjs';
import { eventually } from '../support/wait.mjs';

const scratch = mkdtempSync(join(tmpdir(), 'holdfast-package-'));
after(() => rmSync(scratch, { recursive: true, force: true }));

/** The same package under a version that is older than any. */
function older(file) {
	const dir = join(scratch, basename(file, '.deb'));
	const old = join(scratch, basename(file).replace(/_.*_/, '_0.0.1_'));
	for (const command of [`dpkg-deb -R ${file} ${dir}`, `sed -i 's/^Version: .*/Version: 0.0.1/' ${dir}/DEBIAN/control`,
		`echo '# of the version before' >>${dir}/etc/holdfast/holdfast.conf`, `dpkg-deb --root-owner-group -b ${dir} ${old}`]) {
		const { status, stderr } = spawnSync('sh', ['-c', command], { encoding: 'utf8' });
		assert.equal(status, 0, stderr);
	}
	rmSync(dir, { recursive: true });
	return old;
}

/** The lines that docs/install.md has people type, from the package to a session that they watch. */
function commandsOfTheDocs() {
	const page = readFileSync(join(repository, 'docs/install.md'), 'utf8');
	const [, block] = /## The Debian package[^]*?```sh\n([^]*?)```/.exec(page);
	return block.trim().split('\n').map((line) => line.replace(/\s+#.*$/, ''));
}

/** The data directories that programs of earlier formats left. */
const formats = readdirSync(join(repository, 'tests/fixtures')).filter((name) => /^data-v\d+$/.test(name)).sort();

/** What was in the root that the package was built in: Map of name to version, as dpkg said. */
function builtWith(file) {
	const info = readFileSync(file.replace(/\.deb$/, '.buildinfo'), 'utf8');
	const [, list] = /^Installed-Build-Depends:\n((?: .*\n)+)/m.exec(info);
	return new Map([...list.matchAll(/^ (\S+?)(?::\S+)? \(= (\S+?)\),?$/gm)].map(([, name, version]) => [name, version]));
}

const isUp = (machine) => machine.try('holdfast sessions --data /var/lib/holdfast').status === 0;

for (const debian of ['12', '13']) {
	test(`Debian ${debian}: five commands of the docs lead from the package to a watched session`, async (t) => {
		const file = packageFor(debian);
		const machine = await DebianMachine.start(t, debian, (share) => {
			cpSync(file, join(share, 'holdfast.deb'));
			return ['holdfast.deb'];
		});
		// What it needs comes first, so that in the end all that is left is the package's own; the other test leaves that to apt.
		machine.run("apt-get -y install $(dpkg-deb -f /share/holdfast.deb Depends Recommends | sed 's/^[A-Z][a-z]*://; s/([^)]*)//g; s/,/ /g')", { timeout: 300_000 });
		const before = machine.list();
		const commands = commandsOfTheDocs();
		assert.equal(commands.length, 5);
		assert.match(commands[0], /^apt install \.\/holdfast_\*\.deb$/);
		machine.run(`cp /share/holdfast.deb /root/${basename(file)}; ${commands[0].replace('apt ', 'apt-get -y ')}`);
		assert.equal(machine.run('systemctl is-active holdfast; systemctl is-enabled holdfast'), 'active\nenabled\n');
		const [, where, url, prompt, watch] = commands;
		assert.match(machine.run(`${where}; ${url}`), /^http:\/\/127\.0\.0\.1:8080\/#token=\S+$/m);
		assert.match(machine.run(`${where}; ${prompt}`), /^> list$[^]*- /m, 'the turn is shown');
		const watched = machine.start(t, `${where}; exec ${watch}`);
		await eventually(() => watched.text().includes('> list'), 'the session to be shown');
		machine.run(`${where}; holdfast prompt first hello`);
		await eventually(() => /> hello\n[^]*hello/i.test(watched.text()), 'it to be watched as it goes on');

		assert.equal(machine.run('stat -c %U /proc/$(systemctl show holdfast --property=MainPID --value); stat -c %U:%a /var/lib/holdfast'), 'holdfast\nholdfast:700\n');
		assert.match(machine.run('systemctl show holdfast --property=Type,WatchdogUSec,NRestarts'), /Type=notify[^]*WatchdogUSec=2min[^]*NRestarts=0|NRestarts=0[^]*Type=notify/);
		assert.match(machine.run('holdfast check-config --config /etc/holdfast/holdfast.conf'), /^data +\/var\/lib\/holdfast +\/etc\/holdfast\/holdfast\.conf:\d+$/m);
		const page = machine.run('exec 3<>/dev/tcp/127.0.0.1/8080; printf "GET / HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\\r\\n" >&3; cat <&3');
		assert.match(page, /^HTTP\/1\.1 200 [^]*<!doctype html>/i, 'the page is there without --web');
		for (const path of ['/usr/share/man/man1/holdfast.1.gz', '/usr/share/bash-completion/completions/holdfast', '/usr/share/zsh/vendor-completions/_holdfast',
			'/usr/share/fish/vendor_completions.d/holdfast.fish', '/usr/share/holdfast/prometheus/holdfast.rules.yml']) {
			machine.run(`test -s ${path}`);
		}

		const list = machine.run('cat /usr/share/doc/holdfast/holdfast.spdx.json');
		const plugin = '/usr/lib/*/libwebsockets-evlib_uv.so';
		const packages = assertLists(t, list, [...librariesIn(machine.run(`ldd /usr/bin/holdfast; ldd ${plugin}`)), plugin]);
		const there = builtWith(file);
		assert.equal(packages.get('holdfast').version, machine.run("dpkg-query -W -f '${Version}' holdfast"));
		packages.delete('holdfast');
		assert.deepEqual([...packages].map(([name, { version }]) => [name, version]), [...packages.keys()].map((name) => [name, there.get(name)]));
		const security = machine.run('systemd-analyze security --no-pager holdfast.service');
		assert.match(security, /Overall exposure level for holdfast\.service: [\d.]+ (OK|SAFE)/);

		machine.run('systemctl stop holdfast; systemctl enable --now holdfast.socket 2>&1; systemctl start holdfast');
		const asking = machine.start(t, 'while :; do exec 3<>/dev/tcp/127.0.0.1/8080 || { echo refused; exit; }; printf "GET /healthz HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\\r\\n" >&3; head -n 1 <&3; done');
		for (let n = 0; n < 3; n++) {
			const had = asking.text().length;
			await eventually(() => asking.text().length > had + 200, 'requests');
			machine.run('systemctl reset-failed holdfast; systemctl restart holdfast');
		}
		const had = asking.text().length;
		await eventually(() => asking.text().length > had + 200, 'requests');
		assert.deepEqual([...new Set(asking.text().split('\n').slice(0, -1).map((line) => line.trim()))], ['HTTP/1.1 200 OK']);

		machine.run('systemctl reset-failed holdfast; kill -9 $(systemctl show holdfast --property=MainPID --value)');
		await eventually(() => isUp(machine), 'systemd to start it again');
		// Who connects all the time, until nobody listens any more, does not start the server again.
		const knocking = machine.start(t, 'while (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do :; done; echo refused');
		machine.run('apt-get -y remove holdfast');
		assert.equal(machine.try('systemctl is-active holdfast.service holdfast.socket').stdout, 'inactive\ninactive\n');
		await eventually(() => knocking.text() === 'refused\n', 'nobody to listen');
		assert.equal(machine.try('systemctl is-active holdfast.service holdfast.socket').stdout, 'inactive\ninactive\n');
		machine.run('test -f /etc/holdfast/holdfast.conf; test -d /var/lib/holdfast/sessions; ! test -e /usr/bin/holdfast');
		machine.run('apt-get -y purge holdfast');
		const left = machine.list().filter((line) => !before.includes(line));
		assert.deepEqual(left, []);
	});

	for (const format of formats) {
		test(`Debian ${debian}: an upgrade keeps configuration and sessions, those of ${format} too`, async (t) => {
			const file = packageFor(debian);
			const machine = await DebianMachine.start(t, debian, (share) => {
				cpSync(file, join(share, 'new.deb'));
				cpSync(older(file), join(share, 'old.deb'));
				cpSync(join(repository, 'tests/fixtures', format, 'stopped'), join(share, 'data'), { recursive: true });
				return ['new.deb'];
			});
			machine.run('apt-get -y install /share/old.deb', { timeout: 300_000 });
			await eventually(() => isUp(machine), 'the server');
			machine.run(`systemctl stop holdfast; cp -r /share/data/* /var/lib/holdfast/; chown -R holdfast: /var/lib/holdfast; sed -i 's/^#keep-days.*/keep-days = 9000/' /etc/holdfast/holdfast.conf; systemctl start holdfast`);
			await eventually(() => isUp(machine), 'the server');
			machine.run(`echo '{"type": "x-note", "data": {"n": 1}}' | holdfast append of-mine --create --data /var/lib/holdfast`);
			const ids = machine.run('ls /var/lib/holdfast/sessions').split('\n').filter(Boolean);
			assert.ok(ids.length > 10 && ids.includes('of-mine'));
			const logs = () => ids.map((id) => machine.run(`holdfast export /var/lib/holdfast ${id}`));
			const was = logs();
			const pid = machine.run('systemctl show holdfast --property=MainPID --value');

			machine.run('apt-get -y -o Dpkg::Options::=--force-confold install /share/new.deb');
			await eventually(() => isUp(machine), 'the new version');
			assert.notEqual(machine.run('systemctl show holdfast --property=MainPID --value'), pid, 'it was started anew');
			assert.match(machine.run('dpkg-query -W -f "\\${Version}" holdfast'), /deb1[23]$/);
			assert.match(machine.run('grep keep-days /etc/holdfast/holdfast.conf; stat -c %U:%G:%a /etc/holdfast/holdfast.conf'), /^keep-days = 9000\nroot:holdfast:640$/m);
			logs().forEach((log, i) => assert.ok(log.startsWith(was[i]), `${ids[i]}: ${log}`)); // a prompt that waited may go on
			assert.match(machine.run('holdfast verify /var/lib/holdfast'), /ok|clean|no problem/i);
			machine.run('apt-get -y purge holdfast');
			machine.run('! test -e /var/lib/holdfast && ! test -e /etc/holdfast && ! getent passwd holdfast');
		});
	}
}
