// The conformance kit of Durable Streams, unchanged, as vitest runs it.

import { runConformanceTests } from '@durable-streams/server-conformance-tests';

runConformanceTests({ baseUrl: process.env.HOLDFAST_URL, longPollTimeoutMs: Number(process.env.HOLDFAST_POLL_MS) });
