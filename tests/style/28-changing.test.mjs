// docs/changing.md says the truth: made-up things are added to a copy of the sources at the places that it names, compile, and are there.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { readCalls } from '../support/calls.mjs';
import { root } from './files.mjs';

const run = promisify(execFile);
const page = readFileSync(join(root, 'docs/changing.md'), 'utf8');
const FLAGS = ['-std=gnu17', '-O0', '-D_GNU_SOURCE', '-D_FILE_OFFSET_BITS=64', '-DHOLDFAST_VERSION="0"', '-Wall', '-Werror', '-Wno-unused-parameter', '-Iinclude', '-Isrc'];
const LIBRARIES = ['-ljansson', '-lxxhash', '-lcmark-gfm-extensions', '-lcmark-gfm'];
const ROUTES = 'src/server/http/http_api.c';

/** What is added, by the heading of the page: [file, behind what, text]. */
const CHANGES = {
	'An event type': [
		['include/holdfast/event.h', '\tEVENT_ELICITATION_RESOLVED,\n', '\tEVENT_MADE_UP,\n'],
		['src/core/wire/event.c', '\t[EVENT_PLAN] = {NAME("plan")},\n', '\t[EVENT_MADE_UP] = {NAME("made_up")},\n'],
		['src/core/wire/event_shown.c', '\tcase EVENT_PLAN:\n', '\tcase EVENT_MADE_UP:\n'],
		['src/core/wire/input_event.c', '\t[EVENT_PLAN] = {{"entries", \'a\', true}},\n', '\t[EVENT_MADE_UP] = {{"word", \'s\', true}},\n'],
	],
	'A limit': [['include/holdfast/limits.h', /#define LIMITS_TABLE\(LIMIT\)\s*\\\n/, '\tLIMIT(size_t, made_up, COUNT, 7, 1, 9, REFUSES(made_up), "things that are made up") \\\n']],
	'An error code': [['include/holdfast/error_codes.h', /#define ERROR_CODES\(CODE, PASSING\)\s*\\\n/, '\tCODE(made_up, 418, 0) \\\n']],
	'A metric': [['include/holdfast/metrics.h', /#define METRICS_TABLE\(METRIC\)\s*\\\n/, '\tMETRIC(MADE_UP, counter, "made_up_total", "", "Things that were made up") \\\n']],
	'An HTTP address': [[ROUTES, 'const struct route session_routes[] = {\n', '\t{"/api/made-up", "GET", .serve = get_health},\n']],
};

const PROGRAM = `
#include "holdfast/door.h"
#include "holdfast/error_codes.h"
#include "holdfast/event.h"
#include "holdfast/hide.h"
#include "holdfast/json_span.h"
#include "holdfast/limits.h"
#include "holdfast/metrics.h"
#include "holdfast/requests.h"

#include <stdio.h>
#include <string.h>

extern const struct route session_routes[];

static void append(const char *text)
{
	struct json_spans spans = {0};
	struct input_event in;
	struct refusal refusal = {0};
	json_spans_read(text, strlen(text), &spans);
	if (input_event_parse(spans.all, limits_default(), &in, &refusal) < 0) {
		printf("refused: %s\\n", refusal.message);
	} else {
		printf("taken as %s\\n", event_type_name(in.type));
		input_event_finish(&in);
	}
	json_spans_finish(&spans);
}

int main(void)
{
	struct buffer text = {0};
	struct metrics *metrics = metrics_create();
	metrics_add(metrics, METRIC_MADE_UP, 3);
	metrics_write(metrics, &text);
	puts(strstr(buffer_cstr(&text), "\\nholdfast_made_up_total "));
	puts("--");
	append("{\\"type\\":\\"made_up\\",\\"data\\":{\\"word\\":\\"x\\"}}");
	append("{\\"type\\":\\"made_up\\",\\"data\\":{}}");
	printf("hidden with tools: %d\\n", event_view_hides(&(struct event_view){.type = EVENT_MADE_UP}) == HIDE_TOOLS);
	printf("status %u\\n", error_code_status(ERROR_made_up));
	for (const struct route *route = session_routes; route->path; route++) {
		if (strcmp(route->path, "/api/made-up") == 0) {
			puts("routed");
		}
	}
	limits_print(limits_default());
	metrics_destroy(metrics);
	buffer_finish(&text);
	return 0;
}
`;

/** The text below a heading of the page. */
function sectionOf(heading) {
	const [, text] = new RegExp(`^## ${heading}\\n([^]*?)(?=^## |$(?![^]))`, 'm').exec(page) ?? [];
	assert.ok(text, `docs/changing.md has no heading "${heading}"`);
	return text;
}

/** Copies the sources and makes the changes, except that in `without`. */
function copyChanged(t, without) {
	const dir = mkdtempSync(join(tmpdir(), 'holdfast-changing-'));
	t.after(() => rmSync(dir, { recursive: true }));
	['include', 'src'].forEach((folder) => cpSync(join(root, folder), join(dir, folder), { recursive: true }));
	for (const [file, behind, text] of Object.values(CHANGES).flat().filter(([path]) => path !== without)) {
		const had = readFileSync(join(dir, file), 'utf8');
		const now = had.replace(behind, (found) => found + text);
		assert.notEqual(now, had, `${file} has a place for this`);
		writeFileSync(join(dir, file), now);
	}
	return dir;
}

/** The files whose objects the program needs: those that show what was added, and what these call. */
function sourcesOf() {
	const calls = readCalls(['core/base', 'core/json', 'core/wire', 'core/render', 'core/metrics'], (file) => file);
	const due = ['base/limits.c', 'base/error_codes.c', 'metrics/metrics.c', 'wire/event.c', 'wire/event_shown.c', 'wire/input_event.c', 'json/json_span.c'].map((file) => `src/core/${file}`);
	const found = new Set(due);
	while (due.length > 0) {
		for (const next of [...calls.get(due.pop()).keys()].filter((file) => !found.has(file))) {
			found.add(next);
			due.push(next);
		}
	}
	return [...found];
}

const compile = (dir, file) => run('cc', [...FLAGS, '-c', '-o', `${file.replaceAll('/', '_')}.o`, file], { cwd: dir });

test('the page names each place that a new event type, limit, error code, metric and address needs, and these are there then', async (t) => {
	for (const [heading, changes] of Object.entries(CHANGES)) {
		const section = sectionOf(heading);
		if (heading !== 'An HTTP address') {
			assert.deepEqual(changes.map(([file]) => file).filter((file) => !section.includes(`\`${file}\``)), [], heading);
		}
	}
	const dir = copyChanged(t);
	writeFileSync(join(dir, 'shown.c'), PROGRAM);
	const files = ['shown.c', ROUTES, ...sourcesOf()];
	for (let at = 0; at < files.length; at += 2) {
		await Promise.all(files.slice(at, at + 2).map((file) => compile(dir, file)));
	}
	// The handlers of the routes are not called: what they need is left open.
	await run('cc', ['-o', 'shown', ...files.map((file) => `${file.replaceAll('/', '_')}.o`), '-no-pie', '-Wl,--unresolved-symbols=ignore-in-object-files', ...LIBRARIES], { cwd: dir });
	const { stdout } = await run(join(dir, 'shown'));
	assert.match(stdout, /^holdfast_made_up_total 3$/m);
	assert.match(stdout, /^taken as made_up$/m);
	assert.match(stdout, /^refused: .*word/m);
	assert.match(stdout, /^hidden with tools: 1$/m);
	assert.match(stdout, /^status 418$/m);
	assert.match(stdout, /^routed$/m);
	assert.match(stdout, /^made_up\s+7\b.*made_up.*things that are made up$/m);
});

test('an event type that is forgotten in the table of what tokens hide does not compile', async (t) => {
	const forgotten = 'src/core/wire/event_shown.c';
	const dir = copyChanged(t, forgotten);
	const plain = FLAGS.filter((flag) => flag !== '-Wall' && flag !== '-Werror');
	await assert.rejects(run('cc', [...plain, '-fsyntax-only', forgotten], { cwd: dir }), /EVENT_MADE_UP.*not handled in switch/);
});
