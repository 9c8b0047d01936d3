// What is promised to clients holds over TLS as it does without: other files of this folder, run once more against servers that
// speak TLS (HOLDFAST_TEST_TLS).

import { join } from 'node:path';
import { test } from 'node:test';
import { partOf } from '../support/part.mjs';
import { rerun } from '../support/rerun.mjs';
import { makeCert } from '../support/tls.mjs';

const FILES = ['20-contract', '21-cut-points', '70-ws-handshake', '71-ws-conformance', '72-http-conformance', '73-http-files', '74-slow-clients', '112-ai-sdk', '114-durable-streams'];

for (const name of partOf(FILES)) {
	test(`${name}, over TLS`, (t) => {
		const { cert } = makeCert(t);
		return rerun(t, name, { HOLDFAST_TEST_TLS: join(cert, '..'), NODE_EXTRA_CA_CERTS: cert }); // fetch() trusts it by that
	});
}
