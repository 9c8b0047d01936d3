// Certificates of a test's own, made with openssl.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { scratchDir } from './server.mjs';

export function openssl(...args) {
	const { status, stderr, stdout } = spawnSync('openssl', args, { encoding: 'utf8' });
	assert.equal(status, 0, `openssl ${args.join(' ')}: ${stderr}`);
	return stdout;
}

/**
 * A certificate that is its own root: {cert, key} are files, `ca` the text to trust. `key`: ec or rsa. `names`: DNS names and
 * addresses. `days`: how long it counts; `dates`: two of openssl's dates instead, for one that has ended.
 */
export function makeCert(t, { type = 'ec', names = ['DNS:localhost', 'IP:127.0.0.1', 'IP:0:0:0:0:0:0:0:1'], dates = null, dir = scratchDir(t), bits = 2048 } = {}) {
	const [cert, key] = [join(dir, 'cert.pem'), join(dir, 'key.pem')];
	const made = type === 'ec' ? ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256'] : [`rsa:${bits}`];
	const common = ['-newkey', ...made, '-nodes', '-keyout', key, '-subj', '/CN=holdfast test', '-addext', `subjectAltName=${names.join(',')}`];
	if (dates) {
		const request = join(dir, 'request.pem');
		openssl('req', '-new', ...common, '-out', request);
		openssl('x509', '-req', '-in', request, '-signkey', key, '-out', cert, '-days', String(dates));
	} else {
		openssl('req', '-x509', ...common, '-out', cert, '-days', '2');
	}
	return { cert, key, ca: readFileSync(cert, 'utf8') };
}

/** Options of a server that speaks TLS on loopback with this certificate. */
export function withTls({ cert, key, ca }, { args = [], listen = ['https://127.0.0.1:0'], ...more } = {}) {
	return { listen, ca, args: ['--tls-cert', cert, '--tls-key', key, ...args], ...more };
}
