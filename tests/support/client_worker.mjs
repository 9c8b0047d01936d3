// The client in a worker: what a worker of a browser has, it has, and no more. Reports what it sees.

import { parentPort, workerData } from 'node:worker_threads';
import WebSocket from 'ws';

const scope = new EventTarget();
globalThis.WebSocket = WebSocket;
globalThis.location = { href: workerData.base };
globalThis.addEventListener = scope.addEventListener.bind(scope);
globalThis.removeEventListener = scope.removeEventListener.bind(scope);

const { HoldfastClient } = await import('../../web/client/holdfast-client.js');
// No timer of it ever fires: what it does, it does because the worker was told something.
const timers = { setTimeout: () => 0, clearTimeout: () => {}, now: Date.now };
const client = new HoldfastClient({ sessionId: workerData.sessionId, timers, getToken: () => workerData.token });
client.on('status', ({ status }) => parentPort.postMessage({ status }));
client.on('events', ({ events }) => parentPort.postMessage({ seqs: events.map(({ seq }) => seq) }));
client.connect();
parentPort.on('message', (type) => scope.dispatchEvent(new Event(type)));
