// A compressed stream of events behind a proxy: each event is there before the next one is made, behind nginx and Caddy as the docs set them up, and with the server alone.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createGunzip, constants } from 'node:zlib';
import { authOf } from '../support/auth.mjs';
import { leftOut } from '../support/parts.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { defer, eventually } from '../support/wait.mjs';

const docs = readFileSync(fileURLToPath(new URL('../../docs/remote-access.md', import.meta.url)), 'utf8');
const EVENTS = 20;

const configOf = (language, about) => [...docs.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].find(([, name, code]) => name === language && code.includes(about))[2];

async function freePort() {
	const probe = net.createServer();
	await new Promise((resolve) => probe.listen(0, '127.0.0.1', resolve));
	const { port } = probe.address();
	await new Promise((resolve) => probe.close(resolve));
	return port;
}

async function run(t, port, command, args) {
	const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, HOME: scratchDir(t) } });
	let said = '';
	child.stderr.setEncoding('utf8').on('data', (text) => (said += text));
	defer(t, () => new Promise((resolve) => {
		child.on('close', resolve);
		child.kill('SIGTERM');
	}));
	const answers = () => new Promise((resolve) => {
		const socket = net.connect(port, '127.0.0.1', () => resolve(socket.destroy()));
		socket.on('error', () => resolve(false));
	});
	await eventually(answers, () => `${command} to listen\n${said}`);
	return `http://127.0.0.1:${port}`;
}

/** What stands in front of the server; gives the address to ask. */
const PROXIES = {
	'the server alone': (t, server) => server.url,
	nginx: async (t, server) => {
		const [dir, port] = [scratchDir(t), await freePort()];
		const site = configOf('nginx', 'proxy_pass').replaceAll(/listen [^;]*;/g, '').replaceAll(/ssl_certificate[^;]*;/g, '')
			.replace('server_name', `listen 127.0.0.1:${port};\n\tserver_name`).replace('http://127.0.0.1:8080', server.url);
		const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${dir}/${name};`).join('\n');
		writeFileSync(join(dir, 'nginx.conf'), `daemon off;\npid ${dir}/pid;\nerror_log stderr;\nworker_processes 1;\nevents {}\nhttp {\naccess_log off;\n${paths}\n${site}\n}\n`);
		return run(t, port, 'nginx', ['-p', dir, '-c', join(dir, 'nginx.conf')]);
	},
	Caddy: async (t, server) => {
		const [dir, port] = [scratchDir(t), await freePort()];
		const site = configOf('caddyfile', 'reverse_proxy').replace('holdfast.example.org', `http://127.0.0.1:${port}`).replace('127.0.0.1:8080', new URL(server.url).host);
		writeFileSync(join(dir, 'Caddyfile'), `{\n\tadmin off\n\tauto_https off\n}\n${site}`);
		return run(t, port, 'caddy', ['run', '--config', join(dir, 'Caddyfile'), '--adapter', 'caddyfile']);
	},
};

/** Opens a stream; `text` is what has come of it, unpacked. */
async function follow(t, server, url, path, packed) {
	const headers = { ...authOf(server.url), accept: 'text/event-stream', ...(packed && { 'accept-encoding': 'gzip' }) };
	const response = await new Promise((resolve, reject) => {
		const request = http.get(url + path, { headers }, resolve).on('error', reject);
		defer(t, () => request.destroy());
	});
	assert.equal(response.statusCode, 200);
	assert.equal(response.headers['content-encoding'], packed ? 'gzip' : undefined);
	const stream = { text: '' };
	const source = packed ? response.pipe(createGunzip({ flush: constants.Z_SYNC_FLUSH })) : response;
	source.setEncoding('utf8').on('data', (text) => (stream.text += text)).on('error', () => {});
	response.on('error', () => {});
	return stream;
}

for (const [name, stand] of Object.entries(PROXIES)) {
	for (const packed of [true, false]) {
		test(`${name}${packed ? ', compressed' : ''}: each event comes before the next one is made`, async (t) => {
			const server = await Server.start(t, { args: ['--trust-proxy', '127.0.0.1', '--limit', 'comment_ms=600000'] });
			await server.createSession({ id: 's' });
			const url = await stand(t, server);
			const streams = [await follow(t, server, url, '/api/sessions/s/events?format=markdown', packed)];
			if (!('durable_streams' in leftOut)) {
				streams.push(await follow(t, server, url, '/ds/sessions/s?live=sse&offset=-1', packed));
			}
			for (let i = 0; i < EVENTS; i++) {
				await post(server, 's', input.note({ n: `event-${i}-` }));
				for (const stream of streams) {
					await eventually(() => stream.text.includes(`event-${i}-`), () => `event ${i}; there is ${stream.text.length}: ${stream.text.slice(-300)}`, 5000);
				}
			}
		});
	}
}
