// From `git clone` to the link, on a machine that has nothing but git: scripts/run installs what it takes, builds and starts the server.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { DebianMachine, repository } from '../support/debian.mjs';
import { eventually } from '../support/wait.mjs';

/** What scripts/run installs, as its sources say. */
function packagesOfRun() {
	return execFileSync('bash', ['-c', `. ${join(repository, 'scripts/lib.sh')}; printf '%s\\n' "\${build_packages[@]}"`], { encoding: 'utf8' }).trim().split('\n');
}

test('Debian 12: scripts/run leads from a clone to the link that logs in', async (t) => {
	const machine = await DebianMachine.start(t, '12', (share) => {
		execFileSync('git', ['clone', '--quiet', '--bare', repository, join(share, 'holdfast.git')]);
		return ['git', ...packagesOfRun()];
	});
	machine.run('apt-get -y --no-install-recommends install git; git -c safe.directory=* clone --quiet /share/holdfast.git', { timeout: 300_000 });
	const running = machine.start(t, 'cd holdfast; exec scripts/run 2>&1');
	await eventually(() => /^run: open http:\/\/127\.0\.0\.1:8080\/#token=\S+; Ctrl-C stops the server$/m.test(running.text()), 'the link', 500_000);
	machine.run('cd holdfast; build/holdfast prompt first list --create --data data; build/holdfast verify data');
	assert.equal(machine.run('cd holdfast; git status --porcelain'), '', 'all that it makes is ignored');
});
