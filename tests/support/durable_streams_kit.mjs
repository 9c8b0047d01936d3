// Runs the conformance kit of Durable Streams, unchanged, against a server: npm @durable-streams/server-conformance-tests, in tests/doors.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Server, scratchDir } from './server.mjs';

const doors = fileURLToPath(new URL('../doors/', import.meta.url));
const vitest = join(doors, 'node_modules/vitest/vitest.mjs');
/** How long the server holds a long-poll, which the kit is told. */
const POLL_MS = 1000;

/** The kit's tests that have run, in a server of its own: {group, name, status, message} of each. `groups`: only those of its groups, else all. */
export async function runKit(t, groups = []) {
	if (!existsSync(vitest)) {
		throw new Error('the kit is not installed: scripts/test does that, or npm ci --prefix tests/doors');
	}
	const server = await Server.start(t, { auth: false, args: ['--allow-origin', '*', '--limit', `poll_ms=${POLL_MS}`] });
	const report = join(scratchDir(t), 'report.json');
	const only = groups.length > 0 ? ['-t', `^ ?(${groups.join('|')}) `] : [];
	const child = spawn(process.execPath, [vitest, 'run', '--root', doors, '--reporter=json', `--outputFile=${report}`, ...only], {
		env: { ...process.env, HOLDFAST_URL: server.url, HOLDFAST_POLL_MS: String(POLL_MS) }, stdio: ['ignore', 'pipe', 'pipe'],
	});
	let output = '';
	child.stdout.on('data', (text) => (output += text));
	child.stderr.on('data', (text) => (output += text));
	await once(child, 'close');
	if (!existsSync(report)) {
		throw new Error(`the kit has not run\n${output}`);
	}
	return JSON.parse(readFileSync(report, 'utf8')).testResults.flatMap(({ assertionResults: results }) => results)
		.map(({ ancestorTitles: [group], fullName: name, status, failureMessages: messages }) => ({ group, name, status, message: (messages ?? []).join('\n') }));
}

/** Those that failed, one line each. */
export function failuresIn(results) {
	return results.filter(({ status }) => status === 'failed').map(({ name, message }) => `${name}: ${message.split('\n')[0]}`);
}
