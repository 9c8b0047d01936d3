// Damage to what is beside the sessions: secrets, the file of logins and revocations, how far webhooks have been told, the record of the
// clock. Start, verify and repair agree on each; what was revoked or has ended stays so, or somebody says that it may not.

import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { partOf } from '../support/part.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';
import { bearer } from '../support/tokens.mjs';
import { Receiver } from '../support/webhook_receiver.mjs';

const FILES = ['access.jsonl', 'webhooks.jsonl', 'clock.json', 'access-token', 'token-secret', 'push-key'];
const SECRETS = FILES.slice(3);

async function run(code, ...args) {
	const done = await runToEnd(args);
	assert.ok([code].flat().includes(done.signal ?? done.code), `holdfast ${args.join(' ')}: ${done.signal ?? done.code}\n${done.stdout}${done.stderr}`);
	return done;
}

async function logIn(server) {
	const { status, headers, body } = await server.request('POST', '/api/login', { json: { token: server.token }, headers: { origin: server.url, authorization: undefined } });
	assert.equal(status, 200);
	return { cookie: headers.get('set-cookie').split(';')[0], half: body.login };
}

/** The headers of a login; the cookie has the port of the server in its name. */
const asPage = (server, { cookie, half }) => ({ authorization: undefined, cookie: cookie.replace(/_\d+=/, `_${new URL(server.url).port}=`), 'holdfast-login': half });

/** A directory with two tokens that were revoked and a login that has ended, and one of each that counts. */
async function make(t, receiver) {
	const server = await Server.start(t, { args: receiver.args() });
	for (const id of ['one', 'two']) {
		await server.createSession({ id });
		await post(server, id, [input.text('Well.\n\n'), input.end()]);
	}
	await receiver.until(2);
	const create = async () => (await run(0, 'token', 'create', '--role', 'admin', '--session', '*', '--data', server.dataDir)).stdout.trim();
	const revoke = (token) => run(0, 'token', 'revoke', JSON.parse(Buffer.from(token.split('.')[1], 'base64url')).jti, '--data', server.dataDir);
	const [first, good, last] = [await create(), await create(), await create()];
	await revoke(first);
	const [login, ended] = [await logIn(server), await logIn(server)];
	assert.equal((await server.request('DELETE', '/api/login', { headers: { ...asPage(server, ended), origin: server.url } })).status, 204);
	await revoke(last);
	await server.stop();
	return { dir: server.dataDir, token: server.token, revoked: [first, last], good, login, ended };
}

/* --- damage --- */

const endOf = (bytes, at) => bytes.indexOf(10, at) + 1 || bytes.length;

const DAMAGES = {
	bit: (bytes, at) => {
		bytes[at] ^= 1 << (at % 7);
		return bytes;
	},
	cut: (bytes, at) => bytes.subarray(0, at),
	doubled: (bytes, at) => Buffer.concat([bytes.subarray(0, endOf(bytes, at)), bytes.subarray(bytes.lastIndexOf(10, at - 1) + 1)]),
	again: (bytes, at) => Buffer.concat([bytes, bytes.subarray(0, endOf(bytes, at))]), // its beginning, behind its end
	foreign: (bytes, at, other) => other,
	gone: () => null,
};

function casesOf(made, file) {
	const bytes = readFileSync(join(made.dir, file));
	const step = bytes.length < 300 ? 1 : 3;
	const lines = [...bytes.keys()].filter((at) => bytes[at] === 10);
	const near = (at) => lines.some((end) => Math.abs(at - end) < 2);
	const cases = [{ file, kind: 'gone' }, { file, kind: 'foreign' }];
	for (const at of bytes.keys()) {
		(at % step === 0 || near(at)) && cases.push({ file, kind: 'bit', at });
		(at % (2 * step) === 0 || near(at)) && cases.push({ file, kind: 'cut', at });
	}
	for (const at of lines) {
		cases.push({ file, kind: 'doubled', at }, { file, kind: 'again', at });
	}
	return cases;
}

/* --- what must hold --- */

/** Of tokens and logins: those of `all` that a server takes. */
async function taken(server, made) {
	const get = async (headers) => (await server.request('GET', '/api/sessions/one', { headers })).status === 200;
	return {
		revoked: await Promise.all(made.revoked.map((token) => get(bearer(token)))),
		ended: await get(asPage(server, made.ended)),
		good: await get(bearer(made.good)),
		login: await get(asPage(server, made.login)),
		own: await get(bearer(made.token)),
	};
}

function judge(found, { file, kind, at }, made) {
	const size = readFileSync(join(made.dir, file)).length;
	// Nobody can know of lines that are gone as a whole.
	const isLost = file === 'access.jsonl' && (['gone', 'foreign'].includes(kind) || (kind === 'cut' && at < size - 1));
	assert.ok(isLost || !(found.revoked.includes(true) || found.ended), `what was revoked counts again: ${JSON.stringify(found)}`);
	if (!SECRETS.includes(file) && !isLost) {
		assert.ok(found.good && found.login, JSON.stringify(found));
	}
	if (file !== 'access-token') {
		assert.ok(found.own);
	}
}

/** What verify prints of the file: whether it is a problem, and its words. */
function ofFile({ code, stdout }, file) {
	const line = stdout.split('\n').find((text) => text.replace('note: ', '').startsWith(`${file}: `)) ?? '';
	assert.equal(code, line && !line.startsWith('note: ') ? 1 : 0, stdout);
	return line.replace('note: ', '').slice(line && file.length + 2);
}

async function walk(t, made, args, damage, others) {
	const { file, kind, at } = damage;
	const dir = join(scratchDir(t), 'data');
	const path = join(dir, file);
	cpSync(made.dir, dir, { recursive: true });
	const bytes = DAMAGES[kind](readFileSync(path), at, others[file]);
	bytes === null ? rmSync(path) : writeFileSync(path, bytes);
	const verified = await run([0, 1], 'verify', dir);
	const words = ofFile(verified, file);
	const again = `${dir}.again`;
	cpSync(dir, again, { recursive: true });
	const repaired = await run([0, 1], 'repair', again);
	assert.equal(/^nothing is damaged$/m.test(repaired.stdout), verified.code === 0, repaired.stdout);
	assert.equal(/this is still damaged/.test(repaired.stderr), verified.code === 1, repaired.stderr);
	if (bytes && file !== 'clock.json') {
		assert.ok(readFileSync(join(again, file)).equals(bytes), 'repair leaves it alone');
	}
	assert.equal((await run([0, 1], 'verify', again)).code, verified.code);
	const server = new Server({ dataDir: dir, cwd: scratchDir(t), agent: null, listen: ['127.0.0.1:0'], args });
	try {
		const refusal = await server.up().then(() => '', (error) => error.message);
		assert.equal(Boolean(refusal), verified.code === 1, `${refusal || 'it starts'}\n${verified.stdout}`);
		if (refusal) {
			const [, number] = /^line (\d+) is damaged/.exec(words) ?? [];
			assert.match(refusal, number ? new RegExp(`damaged in line ${number}: revocations may be lost`) : /remove the file/);
			rmSync(path); // as it says
			await server.up();
			assert.equal((await run([0, 1], 'verify', dir)).code, 0);
			return;
		}
		words && assert.ok(server.stderr.includes(words.replace(/^it is damaged: |^it cannot be read: .*?; /, '')), `${words}\n${server.stderr}`);
		!words && assert.doesNotMatch(server.stderr, new RegExp(`${file}[^\\n]*(damaged|incomplete|cannot be read)`));
		judge(await taken(server, made), damage, made);
		if (file !== 'access.jsonl') {
			return;
		}
		// Another line behind it, and nothing of what counted is lost.
		await server.request('POST', '/api/tokens/revoke', { json: { jti: 'another' }, headers: bearer(made.good) });
		await server.stop();
		await server.up();
		judge(await taken(server, made), damage, made);
	} finally {
		await server.stop();
		[dir, again].forEach((each) => rmSync(each, { recursive: true }));
	}
}

test('each file, each damage', { timeout: 3_600_000 }, async (t) => {
	const receiver = await Receiver.start(t);
	const made = await make(t, receiver);
	const other = await make(t, await Receiver.start(t));
	const others = Object.fromEntries(FILES.map((file) => [file, readFileSync(join(other.dir, file))]));
	const wrong = [];
	const cases = FILES.flatMap((file) => casesOf(made, file));
	for (const damage of partOf(cases)) {
		await walk(t, made, receiver.args(), damage, others).catch((error) => {
			wrong.push(`${damage.file}: ${damage.kind} at ${damage.at}: ${error.message}`);
		});
	}
	assert.equal(wrong.length, 0, `${wrong.length} of ${cases.length}\n${wrong.slice(0, 10).join('\n\n')}`);
});

test('a backup has what counts, also of files whose last newline is gone', async (t) => {
	const receiver = await Receiver.start(t);
	const made = await make(t, receiver);
	for (const file of ['access.jsonl', ...SECRETS]) {
		const path = join(made.dir, file);
		writeFileSync(path, readFileSync(path).subarray(0, -1));
	}
	const dir = scratchDir(t);
	await run(0, 'backup', made.dir, join(dir, 'to'), '--secrets');
	await run(0, 'restore', join(dir, 'to'), join(dir, 'restored'), '--keep-secrets');
	const server = await Server.start(t, { dataDir: join(dir, 'restored') });
	assert.deepEqual(await taken(server, made), { revoked: [false, false], ended: false, good: true, login: true, own: true });
});
