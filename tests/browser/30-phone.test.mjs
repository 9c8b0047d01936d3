// A phone: another address, TLS, the recipes of docs/remote-access.md word for word; the page, its cookie, a link for others and the
// client library.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate, createHash } from 'node:crypto';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Machine } from '../support/machine.mjs';
import { HERE, makePair, netnsFault } from '../support/netns.mjs';
import { binary, demoAgent, runToEnd, scratchDir } from '../support/server.mjs';
import { makeCert } from '../support/tls.mjs';
import { defer, eventually } from '../support/wait.mjs';
import { ARGS, CHROMIUM, byTestId, chromium, openPage, say, waitForTurns } from './page.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const NAME = 'holdfast.example.org';
const PHONE = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true };
const fault = netnsFault();

if (fault && process.getuid() === 0) {
	test('root may make network namespaces', () => assert.fail(fault));
} else if (fault) {
	console.log(`no network namespaces here (${fault}): a phone is not tested`);
}

/** The blocks of code of a part of the page, in order, of a language. */
function recipe(heading, language) {
	const text = readFileSync(join(ROOT, 'docs/remote-access.md'), 'utf8');
	const part = text.split(/^## /m).find((each) => each.startsWith(`${heading}\n`));
	return [...part.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].filter(([, name]) => name === language).map(([, , code]) => code);
}

/** A machine with this name and a certificate, and a phone with a browser, with a cable between them. */
async function setUp(t) {
	const { here, there } = makePair(t);
	const server = new Machine(t, here);
	const phone = new Machine(t, there);
	const pair = makeCert(t, { names: [`DNS:${NAME}`] });
	const hosts = `127.0.0.1 localhost\n${HERE} ${NAME}\n`;
	for (const machine of [server, phone]) {
		machine.put('hosts', hosts);
	}
	server.copy(`letsencrypt/live/${NAME}/fullchain.pem`, pair.cert);
	server.copy(`letsencrypt/live/${NAME}/privkey.pem`, pair.key);
	server.copy('holdfast/cert.pem', pair.cert);
	server.copy('holdfast/key.pem', pair.key);
	return { server, phone, there, pair };
}

/** Runs the command of a recipe as it stands; resolves when the server listens. */
async function serve(server, command) {
	const env = { PATH: `${dirname(binary())}:${process.env.PATH}`, HOLDFAST_WEB: join(ROOT, 'web'), HOLDFAST_AGENT: demoAgent('--rate 600') };
	const { output } = server.start('sh', ['-c', `exec ${command.trim()}`], { env });
	await eventually(() => /holdfast url --data/.test(output()), `the server to listen\n${output()}`);
}

/** Chromium on the phone, which trusts this certificate and no other. */
async function startBrowser(t, there, { ca }) {
	const program = join(scratchDir(t), 'chromium');
	writeFileSync(program, `#!/bin/sh\nexec ip netns exec ${there} ${CHROMIUM} "$@"\n`);
	chmodSync(program, 0o755);
	const key = new X509Certificate(ca).publicKey.export({ type: 'spki', format: 'der' });
	const browser = await chromium.launch({
		executablePath: program,
		args: [...ARGS.filter((arg) => !arg.startsWith('--host-resolver-rules')), `--host-resolver-rules=MAP ${NAME} ${HERE}`,
			`--ignore-certificate-errors-spki-list=${createHash('sha256').update(key).digest('base64')}`],
	});
	defer(t, () => browser.close());
	return browser;
}

async function holdfast(server, ...args) {
	const { code, stdout, stderr } = await runToEnd([...args, '--data', server.dataDir]);
	assert.equal(code, 0, stderr);
	return stdout.trim();
}

/** The client library in a program on the phone: prompts, and tells what it got. */
const PROGRAM = `
	const [root, base, token, sessionId] = process.argv.slice(1);
	const { default: WebSocket } = await import(root + 'tests/node_modules/ws/wrapper.mjs');
	const { HoldfastClient } = await import(root + 'web/client/holdfast-client.js');
	const client = new HoldfastClient({ base, sessionId, getToken: () => token, format: 'markdown', WebSocket }).connect();
	client.on('error', (error) => { console.log('error', error.code); process.exit(1); });
	client.prompt('list');
	let turns = 0;
	for await (const event of client) {
		if (event.type === 'turn_end' && ++turns === 2) {
			console.log('seq', event.seq);
			client.close();
		}
	}`;

/** Gives a function that loads the page and waits until it has begun; if that takes too long it tells what the page waits for. */
function watchLoads(page) {
	const pending = new Set();
	const failed = [];
	page.on('request', (request) => pending.add(request));
	['requestfinished', 'requestfailed'].forEach((name) => page.on(name, (request) => pending.delete(request)));
	page.on('requestfailed', (request) => failed.push(`${request.url()} ${request.failure()?.errorText}`));
	page.on('response', (response) => response.status() >= 400 && failed.push(`${response.url()} ${response.status()}`));
	return async (url) => {
		pending.clear();
		await page.goto(url);
		await page.waitForFunction(() => !document.body.classList.contains('locked') && !location.hash.includes('token')).catch(async (error) => {
			const shown = await page.evaluate(() => `${location.hash.slice(0, 8)} ${document.body.className}: ${document.body.innerText.slice(0, 300)}`);
			throw new Error(`${error.message}; the page shows ${shown}; it waits for ${[...pending].map((request) => `${request.method()} ${request.url()}`).join(', ')}; failed: ${failed.join(', ')}`);
		});
	};
}

/** `domain`: of the cookie, which is Secure unless the phone sees no TLS. */
async function usePhone(t, { server, phone, there, pair }, { secure = true, domain = NAME } = {}) {
	const by = startBrowser(t, there, pair);
	const link = await holdfast(server, 'url');
	const base = link.split('/#')[0];
	const token = readFileSync(join(server.dataDir, 'access-token'), 'utf8').trim();
	const id = 'first';
	const made = await phone.run('curl', ['-sS', '--cacert', pair.cert, '-H', `Authorization: Bearer ${token}`, '-H', 'Content-Type: application/json', '-d', `{"id":"${id}"}`, `${base}/api/sessions`]);
	assert.match(made, /"epoch"/);
	const page = await openPage(t, 'about:blank', { by, login: false, ...PHONE });
	const load = watchLoads(page);
	await load(`${link}&session=${id}`);
	await say(page, 'list');
	await waitForTurns(page, 1);
	const [cookie] = await page.context().cookies();
	assert.deepEqual([cookie.secure, cookie.httpOnly, cookie.sameSite, cookie.domain], [secure, true, 'Strict', domain]);
	await load(`${base}/`);

	const shared = await holdfast(server, 'token', 'create', '--role', 'observer', '--session', id, '--link');
	assert.ok(shared.startsWith(`${base}/#share=`), shared);
	const guest = await openPage(t, shared, { by, login: false, ...PHONE });
	await waitForTurns(guest, 1);
	assert.match(await byTestId(guest, 'who').textContent(), /\(observer\)$/);

	const env = { NODE_EXTRA_CA_CERTS: pair.cert };
	const told = await phone.run(process.execPath, ['--input-type=module', '-e', PROGRAM, ROOT, base, token, id], { env });
	assert.match(told, /^seq \d+$/m);
	await waitForTurns(guest, 2);
	return { base, token };
}

/** What curl on a machine is answered, by status. */
async function curl(machine, url, { ca, token }) {
	return Number(await machine.run('curl', ['-sS', '-o', '/dev/null', '-w', '%{http_code}', '--cacert', ca, '-H', `Authorization: Bearer ${token}`, url]));
}

fault ?? test('TLS directly', async (t) => {
	const all = await setUp(t);
	await serve(all.server, recipe('TLS directly', 'sh')[0]);
	const { base } = await usePhone(t, all);
	assert.equal(base, `https://${NAME}:8443`);
	assert.match(await all.phone.run('curl', ['-sS', `http://${HERE}:8080/healthz`]), /refused|Failed to connect/);
});

/** Ten wrong tokens lock out the phone that sent them, and nobody else behind the same proxy. */
async function lockOut({ server, phone, pair }, { base, token }) {
	const url = `${base}/api/sessions`;
	const statuses = [];
	for (let i = 0; i < 11; i++) {
		statuses.push(await curl(phone, url, { ca: pair.cert, token: 'wrong' }));
	}
	assert.deepEqual([statuses[0], statuses.at(-1)], [401, 429]);
	assert.equal(await curl(phone, url, { ca: pair.cert, token }), 200, 'a right token passes');
	assert.equal(await curl(server, url, { ca: pair.cert, token: 'wrong' }), 401, 'another address behind the same proxy');
	assert.equal(await curl(server, 'http://127.0.0.1:8080/api/sessions', { ca: pair.cert, token: 'wrong' }), 401);
}

/** Waits until the phone reaches the server through what was started. */
async function reach({ phone, pair }, { child, output }, base = `https://${NAME}`) {
	await eventually(async () => {
		assert.equal(child.exitCode, null, output());
		return /ok/.test(await phone.run('curl', ['-sS', '--cacert', pair.cert, `${base}/healthz`]));
	}, `the phone to reach ${base}`);
}

fault ?? test('nginx in front', async (t) => {
	const all = await setUp(t);
	all.server.put('nginx/sites-enabled/holdfast', recipe('nginx', 'nginx')[0]);
	await serve(all.server, recipe('nginx', 'sh')[0]);
	await reach(all, all.server.start('nginx', ['-g', 'daemon off;']));
	const reached = await usePhone(t, all);
	assert.equal(reached.base, `https://${NAME}`);
	await lockOut(all, reached);
});

fault ?? test('Caddy in front', async (t) => {
	const all = await setUp(t);
	const { server, pair } = all;
	server.put('caddy/Caddyfile', recipe('Caddy', 'caddyfile')[0]);
	// Where it keeps the certificates that it has obtained: nobody issues any here.
	const kept = `caddy-data/caddy/certificates/acme-v02.api.letsencrypt.org-directory/${NAME}/${NAME}`;
	server.copy(`${kept}.crt`, pair.cert);
	server.copy(`${kept}.key`, pair.key);
	server.put(`${kept}.json`, JSON.stringify({ sans: [NAME], issuer_data: { url: '', ca: 'https://acme-v02.api.letsencrypt.org/directory' } }));
	await serve(server, recipe('Caddy', 'sh')[0]);
	await reach(all, server.start('caddy', ['run', '--config', '/etc/caddy/Caddyfile'], { env: { XDG_DATA_HOME: '/etc/caddy-data', XDG_CONFIG_HOME: '/run/caddy' } }));
	const reached = await usePhone(t, all);
	assert.equal(reached.base, `https://${NAME}`);
	await lockOut(all, reached);
});

fault ?? test('HAProxy in front', async (t) => {
	const all = await setUp(t);
	const { server } = all;
	server.put('haproxy/haproxy.cfg', `${readFileSync('/etc/haproxy/haproxy.cfg', 'utf8')}\n${recipe('HAProxy', 'haproxy')[0]}`);
	const [renew, command] = recipe('HAProxy', 'sh');
	await serve(server, command);
	await reach(all, server.start('sh', ['-ec', `mkdir /run/haproxy\n${renew}exec haproxy -db -f /etc/haproxy/haproxy.cfg`]));
	const reached = await usePhone(t, all);
	assert.equal(reached.base, `https://${NAME}`);
	await lockOut(all, reached);
});

fault ?? test('SSH: a server without any option, and a port of the phone', async (t) => {
	const all = await setUp(t);
	const { server, phone } = all;
	const key = join(scratchDir(t), 'key');
	execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]);
	server.put('passwd', `${readFileSync('/etc/passwd', 'utf8')}me:x:7777:7777::/etc/me:/bin/sh\n`);
	server.copy('me/.ssh/authorized_keys', `${key}.pub`);
	server.put('dropbear/here', '');
	phone.copy('ssh/key', key);
	phone.put('ssh/ssh_config', 'IdentityFile /etc/ssh/key\nUserKnownHostsFile /run/known_hosts\nStrictHostKeyChecking accept-new\n');
	await serve(server, 'holdfast serve --data /var/lib/holdfast');
	const { output } = server.start('dropbear', ['-F', '-E', '-R', '-s', '-p', '22']);
	await eventually(() => /Not backgrounding/.test(output()), `the SSH server to begin\n${output()}`);
	await reach(all, phone.start('sh', ['-c', `exec ${recipe('SSH', 'sh')[0].trim()}`]), 'http://127.0.0.1:8080');
	const { base } = await usePhone(t, all, { secure: false, domain: '127.0.0.1' });
	assert.equal(base, 'http://127.0.0.1:8080');
	assert.match(await phone.run('curl', ['-sS', `http://${HERE}:8080/healthz`]), /refused|Failed to connect/);
});
