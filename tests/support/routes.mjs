// What the server's sources say that clients can ask for: the tables of addresses and of frames. The tests of who may do what
// (e2e 80) compare them with proto/doors.json, so that nothing can come in that is not in both.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { filesIn } from '../style/files.mjs';

const folder = (name) => fileURLToPath(new URL(`../../src/${name}/`, import.meta.url));
const read = (path) => readFileSync(folder('.') + path, 'utf8');

/** The code of the wings that serve something. */
const serving = () => filesIn(['src/server', 'src/doors', 'src/nodes', 'src/notify'], ['.c']).filter((file) => !file.startsWith('src/server/relay/')).map((file) => read(file.slice('src/'.length)));

/** The rows of an array of structs in C, each as its text without the braces. */
function rowsOf(path, name) {
	const [, body] = new RegExp(`\\b${name}\\[\\] = \\{\\n(.*?)\\n\\t*\\};`, 's').exec(read(path)) ?? [];
	const rows = [...(body ?? '').matchAll(/^\t+\{(".*)\},$/gm)].map(([, row]) => row);
	if (rows.length === 0 || rows.length !== body.split('\n').length) {
		throw new Error(`the table ${name} in src/${path} is not read: one row a line, which begins with a text`);
	}
	return rows;
}

/** The names in a text of C. */
const textsOf = (code) => [...code.matchAll(/"([^"]*)"/g)].map(([, text]) => text);
/** {name...} is a name that may have slashes. */
const pathOf = (pattern) => pattern.replace('...}', '}');

/** Each table of routes of the wings that serve something, without the row that ends it: path, methods, and whether a WebSocket is there. */
function routeRows() {
	const code = serving().join('\n');
	const tables = [...code.matchAll(/^(?:static )?const struct route \w+\[\] = \{\n(.*?)\n\};/gms)].map(([, body]) => body);
	const rows = tables.flatMap((body) => [...body.matchAll(/^\t\{"([^"]*)", "([^"]*)"(.*?)\},$/gms)].map(([, path, methods, rest]) => ({ path, methods, hasSocket: rest.includes('.socket = '), isForNodes: rest.includes('ROUTE_NODES') })));
	const count = tables.reduce((sum, body) => sum + body.split('\n').filter((line) => line.startsWith('\t{"')).length, 0);
	if (tables.length < 5 || rows.length !== count || tables.some((body) => !body.endsWith('\t{0},'))) {
		throw new Error('the tables of routes in src/server are not read: a row begins with {"PATH", "METHODS", and the last one is {0}');
	}
	return rows;
}

/** Each method at each address: {method, path}. HEAD, which is as GET, is left out, and so is what is at all other addresses. */
export const routes = () => routeRows().filter(({ path }) => path !== '/{file...}').flatMap(({ path, methods }) =>
	methods.split(', ').filter((method) => method && method !== 'HEAD').map((method) => ({ method, path: pathOf(path) })));

/** The addresses of WebSockets for clients. */
export const sockets = () => routeRows().filter(({ hasSocket, isForNodes }) => hasSocket && !isForNodes).map(({ path }) => path);

/** Every address, and beginning or end of one, in the code of these wings: a way around the tables has one. */
export function namedPaths() {
	const code = serving().filter((text) => /\bconn\b/.test(text)).join('\n'); // what knows no connection serves nothing
	return [...new Set([...code.matchAll(/"(\/[a-z][^"\s]*)"/g)].map(([, path]) => path))].filter((path) => !/(\{(id|rest)\.\.\.\}|\*)$/.test(path)); // rows for what is nowhere else
}

/** The types of frames that the sockets of our own protocol take, as the parser names them to who sends another: by side. */
export function frames() {
	const code = read('core/wire/requests.c');
	const names = [...code.matchAll(/^\t\t\[REQUEST_\w+\] = "(\w+)",$/gm)].map(([, name]) => name);
	const sides = [...code.matchAll(/\[SIDE_(\w+)\] =\s*\(?"([^"]*)"/g)].map(([, side, list]) => [side, list.split(/, | and /).sort()]);
	return { names: names.sort(), sides: Object.fromEntries(sides) };
}

/** What the chats of the AI SDK send. */
export const chatFrames = () => [...read('doors/ai/ai_request.c').matchAll(/says\(ret->json, "type", "(\w+)"/g)].map(([, type]) => type);

/** What editors send: methods of ACP. */
export const editorMethods = () => rowsOf('doors/acp/editor_request.c', 'methods').map((row) => textsOf(row)[0]);
