// Which files of the tree belong to which wing of the program, and which tests to them. From this scripts/test knows what a change
// touches. A style test sees that each test file is in one wing, and each file of the tree in one or in `UNTESTED`.

import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const tests = fileURLToPath(new URL('../', import.meta.url));

/*
 * The tests of each wing, by the first letters of their names. `smoke`: those of them that run when core or server changes, in a
 * minute or less of one of the eight that run at a time. Programs in C and `style` run each time.
 */
export const WINGS = {
	core: {
		tests: ['e2e/20-', 'e2e/21-', 'e2e/23-', 'e2e/24-', 'e2e/29-', 'e2e/30-', 'e2e/32-', 'e2e/34-', 'e2e/35-', 'e2e/36-', 'e2e/37-', 'e2e/38-', 'e2e/52-', 'e2e/53-', 'e2e/54-',
			'e2e/55-', 'e2e/56-', 'e2e/57-', 'e2e/58-', 'e2e/59-', 'e2e/68-', 'e2e/79-', 'e2e/92-', 'e2e/102-', 'e2e/107-', 'e2e/185-', 'e2e/186-', 'e2e/187-', 'e2e/190-', 'e2e/191-',
			'e2e/192-', 'e2e/201-', 'e2e/210-', 'e2e/225-', 'web/schema'],
		smoke: ['e2e/20-', 'e2e/53-', 'e2e/185-'],
	},
	server: {
		tests: ['e2e/10-', 'e2e/11-', 'e2e/12-', 'e2e/14-', 'e2e/15-', 'e2e/16-', 'e2e/18-', 'e2e/19-', 'e2e/39-', 'e2e/66-', 'e2e/70-', 'e2e/71-', 'e2e/72-', 'e2e/73-', 'e2e/74-', 'e2e/75-',
			'e2e/76-', 'e2e/77-', 'e2e/78-', 'e2e/80-', 'e2e/81-', 'e2e/82-', 'e2e/83-', 'e2e/84-', 'e2e/85-', 'e2e/86-', 'e2e/87-', 'e2e/88-', 'e2e/89-', 'e2e/90-', 'e2e/96-', 'e2e/98-',
			'e2e/99-', 'e2e/104-', 'e2e/105-', 'e2e/110-', 'e2e/144-', 'e2e/174-', 'e2e/175-', 'e2e/176-', 'e2e/180-', 'e2e/195-', 'e2e/196-', 'e2e/197-', 'e2e/198-', 'e2e/207-', 'e2e/215-', 'e2e/217-', 'e2e/220-',
			'e2e/230-', 'e2e/240-'],
		smoke: ['e2e/10-', 'e2e/14-', 'e2e/71-'],
	},
	agents: {
		tests: ['e2e/22-', 'e2e/25-', 'e2e/26-', 'e2e/27-', 'e2e/28-', 'e2e/33-', 'e2e/43-', 'e2e/44-', 'e2e/45-', 'e2e/46-', 'e2e/48-', 'e2e/51-', 'e2e/61-', 'e2e/62-', 'e2e/63-', 'e2e/64-',
			'e2e/65-', 'e2e/67-', 'e2e/69-', 'e2e/93-', 'e2e/94-', 'e2e/95-', 'e2e/97-', 'e2e/134-', 'e2e/168-', 'e2e/169-', 'e2e/202-', 'e2e/205-', 'e2e/206-', 'e2e/208-'],
		smoke: ['e2e/22-', 'e2e/44-'],
	},
	doors: {
		tests: ['e2e/112-', 'e2e/114-', 'e2e/115-', 'e2e/130-', 'e2e/131-', 'e2e/132-', 'e2e/138-', 'e2e/139-', 'e2e/140-', 'e2e/143-', 'e2e/146-', 'e2e/164-', 'e2e/165-', 'e2e/170-', 'browser/51-'],
		smoke: ['e2e/115-', 'e2e/140-', 'e2e/164-', 'e2e/165-'],
	},
	nodes: {
		tests: ['e2e/120-', 'e2e/121-', 'e2e/122-', 'e2e/123-', 'e2e/124-', 'e2e/125-', 'e2e/126-', 'e2e/127-', 'e2e/128-', 'e2e/133-', 'e2e/147-', 'e2e/148-', 'e2e/150-', 'e2e/151-', 'e2e/152-',
			'e2e/153-', 'e2e/154-', 'e2e/155-', 'e2e/156-', 'e2e/157-', 'e2e/159-', 'e2e/181-', 'e2e/216-', 'e2e/226-'],
		smoke: ['e2e/128-', 'e2e/151-', 'e2e/155-'],
	},
	notify: { tests: ['e2e/91-', 'e2e/141-'], smoke: ['e2e/141-'] },
	commands: {
		tests: ['e2e/31-', 'e2e/60-', 'e2e/100-', 'e2e/101-', 'e2e/103-', 'e2e/106-', 'e2e/116-', 'e2e/117-', 'e2e/118-', 'e2e/172-', 'e2e/173-', 'e2e/200-'],
		smoke: ['e2e/103-', 'e2e/117-', 'e2e/118-'],
	},
	clients: { tests: ['web/client', 'web/package', 'web/transcript', 'e2e/17-', 'e2e/40-', 'e2e/41-', 'e2e/42-', 'e2e/47-', 'e2e/49-', 'e2e/50-', 'e2e/145-', 'browser/50-'], smoke: ['web/client', 'e2e/49-'] },
	page: { tests: ['browser/1', 'browser/2', 'browser/3', 'browser/4', 'browser/52-', 'browser/53-', 'browser/60-'], smoke: ['browser/10-'] },
	docs: { tests: ['e2e/13-', 'e2e/111-', 'e2e/113-', 'e2e/135-', 'e2e/142-'], smoke: ['e2e/13-'] },
};

/*
 * The files that take longest, a hundred seconds and more among seven others. When core and server have both changed, one of these
 * groups runs, the next one behind each landing: what runs together then takes less than ten minutes. .ci/run runs all.
 */
export const LONG = [
	['e2e/80-', 'e2e/45-', 'browser/28-', 'browser/16-'],
	['e2e/81-', 'e2e/133-', 'browser/15-'],
	['e2e/83-', 'e2e/112-', 'browser/30-', 'browser/18-'],
	['e2e/57-', 'e2e/225-', 'e2e/230-', 'e2e/122-', 'e2e/130-', 'browser/42-'],
];

/*
 * Tests of core and server that run with a whole program only. Of the first two the build is tested; of the others nobody has said yet
 * which of their cases need a part of the program (parts.mjs).
 */
export const WHOLE = ['e2e/18-', 'e2e/175-', 'e2e/23-', 'e2e/24-', 'e2e/29-', 'e2e/30-', 'e2e/32-', 'e2e/79-', 'e2e/81-', 'e2e/90-', 'e2e/191-', 'e2e/192-', 'e2e/196-', 'e2e/198-', 'e2e/207-', 'e2e/220-', 'e2e/230-'];

/* The first row whose name a path begins with tells its wings. A header goes with the file of its name. */
const SOURCES = [
	['src/core/store/raw/', 'doors'], ['src/core/store/mirror', 'nodes'], ['src/core/access/subscriptions', 'server', 'notify'], ['src/core/access/', 'server'], ['src/core/metrics/', 'server'],
	['src/core/wire/acp_names', 'core', 'agents'], ['src/core/wire/agent_state', 'core', 'agents'], ['src/core/wire/elicitation', 'core', 'agents'], ['src/core/wire/prompt_queue', 'core', 'agents'],
	['src/core/json/', 'core', 'agents'], ['src/core/', 'core'],
	['src/engines/', 'nodes'], ['src/nodes/node_identity', 'server', 'nodes'], ['src/nodes/', 'nodes'],
	['src/agents/', 'agents'], ['examples/agents/', 'agents'],
	['src/doors/', 'doors'], ['src/notify/push/http_push', 'server', 'notify'], ['src/notify/', 'notify'], ['src/cli/', 'commands'], ['src/admin/', 'commands'],
	['src/server/listen/peer', 'server', 'nodes'],
	['src/server/routes/append', 'server', 'core'], ['src/server/connection/conn_wait', 'server', 'core'], ['src/server/routes/http_blob', 'server', 'core'], ['src/server/routes/http_create', 'server', 'core'],
	['src/server/routes/http_events', 'server', 'core'], ['src/server/routes/http_search', 'server', 'core'], ['src/server/http/http_stream', 'server', 'core'], ['src/server/routes/ws_producer', 'server', 'core'],
	['src/server/agents', 'server', 'agents'], ['src/server/routes/http_complete', 'server', 'agents'], ['src/server/http/http_queue', 'server', 'agents'], ['src/server/routes/ws_prompts', 'server', 'agents'],
	['src/server/', 'server'], ['src/main.c', 'server'],
	['src/', 'core'], ['include/', 'core'], ['proto/', 'core', 'server'],
	['web/client/', 'clients', 'page'], ['web/', 'page'], ['clients/', 'clients'], ['examples/', 'clients', 'docs'],
	['dist/', 'server', 'docs'], ['docs/', 'docs'], ['README.md', 'docs'], ['CONTRIBUTING.md', 'docs'], ['SECURITY.md', 'docs'], ['CHANGELOG.md', 'docs'],
	['scripts/nodes', 'nodes'], ['scripts/bundle', 'page', 'server'], ['scripts/completions', 'commands'], ['scripts/man', 'server'], ['scripts/', 'server', 'docs'],
	['meson', 'server'], ['tests/corpus/', 'core', 'agents', 'doors', 'page'], ['tests/fixtures/', 'core', 'commands'], ['tests/nodes/', 'nodes'], ['tests/model/', 'core', 'nodes'],
	['tests/week/', 'core'], ['tests/package', 'server'], ['tests/', 'server'],
];

/* What none of these tests looks at; `style`, and programs in C, look at some of it. */
export const UNTESTED = ['bench/', 'LICENSE', '.ci/', '.git', '.clang', '.editorconfig', 'tests/green', 'tests/unit/', 'tests/crash/', 'tests/proof/', 'tests/fuzz/', 'tests/style/', 'tests/agents/',
	'tests/runtimes/', 'tests/package/', 'tests/doors/', 'tests/README.md', 'tests/meson.build', 'tests/threads.supp', 'tests/valgrind.supp', 'tests/support/part.', 'tests/web/types'];

const begins = (path) => (front) => path.startsWith(front);

/** The wings of a path; [] if no test looks at it, undefined if it is in no row. */
export function wingsOf(path, sources) {
	if (UNTESTED.some(begins(path))) {
		return [];
	}
	const header = /^include\/holdfast\/(\w+)\.h$/.exec(path);
	const own = header && sources.find((file) => file.startsWith('src/') && file.endsWith(`/${header[1]}.c`));
	return SOURCES.find(([front]) => (own || path).startsWith(front))?.slice(1);
}

/** {file: [what it imports from the folder of the tests, and what that imports]} */
function importsOf(files) {
	const direct = new Map();
	const look = (file) => {
		if (!direct.has(file)) {
			const text = readFileSync(join(tests, file), 'utf8');
			const found = [...text.matchAll(/(?:from|import\()\s*['"](\.{1,2}\/[^'"]+)['"]/g)].map(([, path]) => relative(tests, join(tests, dirname(file), path)));
			direct.set(file, found.filter((path) => !path.startsWith('..') && path.endsWith('.mjs')));
			direct.get(file).forEach(look);
		}
	};
	files.forEach(look);
	const all = (file, seen = new Set()) => {
		direct.get(file).filter((path) => !seen.has(path)).forEach((path) => all(path, seen.add(path)));
		return seen;
	};
	return Object.fromEntries(files.map((file) => [file, [...all(file)]]));
}

/** The wing of a test file, such as e2e/20-contract.test.mjs. */
export function wingOf(file) {
	return Object.keys(WINGS).filter((wing) => WINGS[wing].tests.some(begins(file)));
}

/**
 * What a change of these paths touches: {wings, files}, of the files that there are. `sources`: all files of the tree. What is in no
 * row, and what more than half of the tests import, changes the server: each wing has its smoke part then. `turn`: whose turn it is of
 * the groups of LONG.
 */
export function touchedBy(changed, files, sources, turn = 0) {
	const imports = importsOf(files);
	const wings = new Set();
	const touched = new Set();
	for (const path of changed) {
		const own = relative('tests', path);
		const importers = path.startsWith('tests/') ? files.filter((file) => file === own || imports[file].includes(own)) : [];
		if (importers.length > 0 && importers.length < files.length / 2) {
			importers.forEach((file) => touched.add(file));
		} else {
			(wingsOf(path, sources) ?? ['server']).forEach((wing) => wings.add(wing));
		}
	}
	const isSmoke = wings.has('core') || wings.has('server');
	const waiting = wings.has('core') && wings.has('server') ? LONG.filter((_, i) => i !== turn % LONG.length).flat() : [];
	for (const [wing, { tests: all, smoke }] of Object.entries(WINGS)) {
		const fronts = wings.has(wing) ? all : isSmoke ? smoke : [];
		files.filter((file) => fronts.some(begins(file)) && !waiting.some(begins(file))).forEach((file) => touched.add(file));
	}
	files.filter((file) => file.startsWith('style/')).forEach((file) => touched.add(file));
	return { wings: Object.keys(WINGS).filter((wing) => wings.has(wing)), files: files.filter((file) => touched.has(file)) };
}

/** All test files below the folders, such as e2e/20-contract.test.mjs. */
export function filesOf(suites) {
	return suites.flatMap((suite) => readdirSync(join(tests, suite)).sort().map((file) => `${suite}/${file}`)).filter((file) => file.endsWith('.test.mjs'));
}
