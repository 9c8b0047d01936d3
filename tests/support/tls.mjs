// Certificates of a test's own, made with openssl.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { scratchDir } from './server.mjs';

export function openssl(...args) {
	const { status, stderr, stdout } = spawnSync('openssl', args, { encoding: 'utf8' });
	assert.equal(status, 0, `openssl ${args.join(' ')}: ${stderr}`);
	return stdout;
}

/**
 * A certificate that is its own root: {cert, key} are files, `ca` the text to trust. `key`: ec or rsa. `names`: DNS names and
 * addresses. `dates`: two of openssl's, between which it counts; without: from now, for two days.
 */
export function makeCert(t, { type = 'ec', names = ['DNS:localhost', 'IP:127.0.0.1', 'IP:0:0:0:0:0:0:0:1'], dates = null, dir = scratchDir(t), bits = 2048 } = {}) {
	const [cert, key] = [join(dir, 'cert.pem'), join(dir, 'key.pem')];
	const made = type === 'ec' ? ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256'] : [`rsa:${bits}`];
	const common = ['-newkey', ...made, '-nodes', '-keyout', key, '-subj', '/CN=holdfast test', '-addext', `subjectAltName=${names.join(',')}`];
	if (dates) {
		// Only `openssl ca` takes dates in each version, and it wants to keep books.
		const [request, config, books] = [join(dir, 'request.pem'), join(dir, 'ca.conf'), join(dir, 'books')];
		writeFileSync(books, '');
		writeFileSync(config, `[ca]\ndefault_ca = own\n[own]\ndatabase = ${books}\nnew_certs_dir = ${dir}\ndefault_md = sha256\nrand_serial = yes\npolicy = any\ncopy_extensions = copy\n[any]\ncommonName = supplied\n`);
		openssl('req', '-new', ...common, '-out', request);
		openssl('ca', '-selfsign', '-batch', '-notext', '-config', config, '-keyfile', key, '-in', request, '-out', cert, '-startdate', dates[0], '-enddate', dates[1]);
	} else {
		openssl('req', '-x509', ...common, '-out', cert, '-days', '2');
	}
	return { cert, key, ca: readFileSync(cert, 'utf8') };
}

/** Options of a server that speaks TLS on loopback with this certificate. */
export function withTls({ cert, key, ca }, { args = [], listen = ['https://127.0.0.1:0'], ...more } = {}) {
	return { listen, ca, args: ['--tls-cert', cert, '--tls-key', key, ...args], ...more };
}
