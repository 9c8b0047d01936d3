// Shows the events of a session as they come, until its producer ends it: node examples/watch.mjs SESSION
// HOLDFAST_TOKEN: a token. HOLDFAST_URL: the server (http://127.0.0.1:8080).
import { HoldfastClient } from '../web/client/holdfast-client.js';

const WebSocket = globalThis.WebSocket ?? (await import('ws').catch(() => null))?.default;
if (!WebSocket || !process.argv[2]) {
	console.error(WebSocket ? 'Usage: node watch.mjs SESSION' : 'Use Node 22 or later, or run: npm install ws');
	process.exit(1);
}
const client = new HoldfastClient({
	base: process.env.HOLDFAST_URL ?? 'http://127.0.0.1:8080',
	getToken: () => process.env.HOLDFAST_TOKEN,
	sessionId: process.argv[2],
	format: 'markdown',
	WebSocket,
}).connect();
client.ready().catch(({ code, message }) => {
	console.error(`${process.argv[2]}: ${code}: ${message}`);
	process.exit(1);
});
for await (const event of client) {
	console.log(event.seq, event.type, event.data?.markdown?.trimEnd() ?? '');
	if (event.type === 'session_end') {
		client.close();
	}
}
