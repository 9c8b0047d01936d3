// docs/changing.md says the truth: made-up things are added to a copy of the tree at the places that it names, the server is built, and has them.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { parseMetrics } from '../support/metrics.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { claims, makeToken, secretOf } from '../support/tokens.mjs';
import { root } from './files.mjs';

const run = promisify(execFile);
const page = readFileSync(join(root, 'docs/changing.md'), 'utf8');
/** What the build reads. */
const FOLDERS = ['include', 'src', 'examples', 'dist', 'bench', 'scripts', 'web', 'docs', 'proto'];

const HANDLER = `static void get_made_up(struct conn *conn)
{
	metrics_add(conn->server->metrics, METRIC_MADE_UP, conn->server->limits->made_up);
	http_refuse_limit(conn, LIMIT_made_up, "it is made up");
}

`;

/** What is added, by the heading of the page: [file, behind what, text]. */
const CHANGES = {
	'An event type': [
		['include/holdfast/event.h', /\tTYPE\(ELICITATION_RESOLVED,.*\\\n/, '\tTYPE(MADE_UP, "made_up", OF_TOOLS) \\\n'],
		['src/core/wire/input_event.c', /\t\[EVENT_PLAN\] = .*\n/, '\t[EVENT_MADE_UP] = {{"word", \'s\', true}},\n'],
	],
	'A limit': [['include/holdfast/limits.h', /#define LIMITS_TABLE\(LIMIT\)\s*\\\n/, '\tLIMIT(size_t, made_up, COUNT, 7, 1, 9, REFUSES(made_up), "things that are made up") \\\n']],
	'An error code': [['include/holdfast/error_codes.h', /#define ERROR_CODES\(CODE, PASSING\)\s*\\\n/, '\tCODE(made_up, 418, 0) \\\n']],
	'A metric': [['include/holdfast/metrics.h', /#define METRICS_TABLE\(METRIC\)\s*\\\n/, '\tMETRIC(MADE_UP, counter, "made_up_total", "", "Things that were made up") \\\n']],
	'An HTTP address': [
		['src/server/http/http_api.c', /(?=const struct route session_routes)/, HANDLER],
		['src/server/http/http_api.c', 'const struct route session_routes[] = {\n', '\t{"/api/made-up", "GET", .serve = get_made_up},\n'],
	],
};

/** The text below a heading of the page. */
function sectionOf(heading) {
	const [, text] = new RegExp(`^## ${heading}\\n([^]*?)(?=^## |$(?![^]))`, 'm').exec(page) ?? [];
	assert.ok(text, `docs/changing.md has no heading "${heading}"`);
	return text;
}

function change(dir, [file, behind, text]) {
	const had = readFileSync(join(dir, file), 'utf8');
	const now = had.replace(behind, (found) => found + text);
	assert.notEqual(now, had, `${file} has a place for this`);
	writeFileSync(join(dir, file), now);
}

function copyOf(t, paths) {
	const dir = scratchDir(t);
	for (const path of paths) {
		cpSync(join(root, path), join(dir, path), { recursive: true, filter: (from) => !from.endsWith('/node_modules') });
	}
	return dir;
}

/** A server with all that is made up, and without the other parts: without optimization it takes a minute of a processor, or a few seconds with a compiler cache. */
async function build(t) {
	const dir = copyOf(t, [...FOLDERS, ...readdirSync(root).filter((file) => /^meson|^LICENSE$|\.md$/.test(file))]);
	Object.values(CHANGES).flat().forEach((one) => change(dir, one));
	await run('meson', ['setup', 'build', '--buildtype=plain', '-Dtests=false', '-Dpostgres=false', '-Ddoors=', '-Dnotify=false'], { cwd: dir });
	await run('ninja', ['-C', 'build', 'holdfast'], { cwd: dir, maxBuffer: 1 << 26 });
	return join(dir, 'build/holdfast');
}

test('the page names each file that a new event type, limit, error code or metric needs', () => {
	for (const [heading, changes] of Object.entries(CHANGES)) {
		const section = sectionOf(heading);
		if (heading !== 'An HTTP address') { // the file is the one that serves it
			assert.deepEqual(changes.map(([file]) => file).filter((file) => !section.includes(`\`${file}\``)), [], heading);
		}
	}
});

test('an event type that does not say who may see it does not compile', async (t) => {
	const [file, behind, row] = CHANGES['An event type'][0];
	const compile = (text) => {
		const dir = copyOf(t, ['include', 'src/core/wire']);
		change(dir, [file, behind, text]);
		return run('cc', ['-std=gnu17', '-D_GNU_SOURCE', '-Iinclude', '-fsyntax-only', 'src/core/wire/event_shown.c'], { cwd: dir });
	};
	await compile(row);
	await assert.rejects(compile(row.replace(', OF_TOOLS', '')), /requires 3 arguments, but only 2 given|too few arguments provided/);
});

test('a server to which these were added has them', async (t) => {
	const program = await build(t);
	const { stdout } = await run(program, ['limits']);
	assert.match(stdout, /^made_up\s+7\b.*made_up.*things that are made up$/m);

	const server = await Server.start(t, { program, args: ['--limit', 'made_up=5'] });
	const refused = await server.request('GET', '/api/made-up');
	assert.deepEqual([refused.status, refused.body.error.code, refused.body.error.message], [418, 'made_up', 'it is made up']);

	const { samples } = parseMetrics((await server.request('GET', '/metrics')).body);
	assert.equal(samples.get('holdfast_made_up_total'), 5);
	assert.equal(samples.get('holdfast_refusals_total{code="made_up"}'), 1);
	assert.equal(samples.get('holdfast_limit_reached_total{limit="made_up"}'), 1);

	const { id } = await server.createSession();
	const path = `/api/sessions/${id}/events`;
	const wrong = await server.request('POST', path, { json: { type: 'made_up', data: {} } });
	assert.deepEqual([wrong.status, wrong.body.error.code], [400, 'bad_request']);
	assert.match(wrong.body.error.message, /data of made_up needs "word"/);
	const right = await server.request('POST', path, { json: { type: 'made_up', data: { word: 'x' } } });
	assert.equal(right.status, 200);

	const { holdfast, ...rest } = claims('observer', ['*'], { sub: 'ann' });
	const authorization = `Bearer ${makeToken({ ...rest, holdfast: { ...holdfast, hide: ['tools'] } }, secretOf(server))}`;
	const eventsFor = async (headers) => (await server.request('GET', path, { headers })).body.events.map(({ type, redacted, data }) => ({ type, redacted, data }));
	assert.deepEqual(await eventsFor({}), [{ type: 'made_up', redacted: undefined, data: { word: 'x' } }]);
	assert.deepEqual(await eventsFor({ authorization }), [{ type: 'made_up', redacted: true, data: {} }]);
});
