// What is promised to clients holds with sessions in PostgreSQL as it does with files: other files of this folder, run once more
// against servers with --store (HOLDFAST_TEST_STORE).

import { test } from 'node:test';
import { partOf } from '../support/part.mjs';
import { Postgres } from '../support/postgres.mjs';
import { rerun } from '../support/rerun.mjs';

const FILES = [
	'10-rest', '16-session-pages', '20-contract', '21-cut-points', '22-agent', '24-blocks', '25-taking-part', '27-recordings', '32-kill-under-load', '33-agent-life', '34-usage', '36-producers', '37-retries', '38-numbers', '40-hostile-proxy',
	'43-queue', '44-permissions', '45-resume', '46-resume-storm', '47-client-writers', '55-clock', '58-labels', '59-search', '84-storm',
];

for (const name of partOf(FILES)) {
	test(`${name}, in PostgreSQL`, (t) => rerun(t, name, { HOLDFAST_TEST_STORE: Postgres.start(t).host }));
}
