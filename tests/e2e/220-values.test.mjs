// Values that people and programs write in several ways: tables of what is taken, and what is refused. Times, periods and sizes of commands, files in PEM, URLs of
// webhooks, content types, the numbers and times of Durable Streams, and text that is cut inside a character.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { markdownOf, servedLog } from '../support/log.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { TEXT, ask } from '../support/raw_streams.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';
import { makeCert, openssl, withTls } from '../support/tls.mjs';
import { eventually } from '../support/wait.mjs';
import { Receiver } from '../support/webhook_receiver.mjs';

test('token revoke --before is a time of RFC 3339, and token create --expires a number and its unit', async (t) => {
	const data = scratchDir(t);
	const create = (expires) => runToEnd(['token', 'create', '--data', data, '--role', 'observer', '--session', 's', '--sub', 'ann', '--expires', expires]);
	for (const expires of ['60s', '5m', '007h', '7d']) {
		assert.equal((await create(expires)).code, 0, expires);
	}
	for (const expires of ['', 's', '5', ' 5m', '+5m', '-5m', '0m', '5 m', '5m ', '1.5h', '1e2s', '0x5m', '5M', '5min', '99999999999999999999s', '40000d']) {
		const { code, stderr } = await create(expires);
		assert.equal(code, 2, expires);
		assert.match(stderr, /--expires/, expires);
	}
	const revoke = (before) => runToEnd(['token', 'revoke', '--data', data, '--sub', 'ann', '--before', before]);
	for (const before of ['2026-11-22T12:00:00Z', '2026-11-22t12:00:00.5z', '2026-11-22T13:00:00+01:00', '2024-02-29T00:00:00-00:00']) {
		const { code, stderr } = await revoke(before);
		assert.equal(code, 0, before + stderr);
	}
	for (const before of ['', 'now', '2026-02-31T12:00:00Z', '2026-04-31T12:00:00Z', ' 2026-11-22T12:00:00Z', '2026-1-2T3:4:5Z', '2026-11-22T12:00:61Z', '2026-11-22T12:00:00', '2026-11-22 12:00:00Z', '1969-12-31T23:59:59Z']) {
		const { code, stderr } = await revoke(before);
		assert.equal(code, 2, before);
		assert.match(stderr, /--before/, before);
	}
});

test('sizes, times and counts of options: whole numbers with the units that are named, of any length, and nothing behind them', async (t) => {
	const check = async (option, value) => (await runToEnd(['check-config', '--data', scratchDir(t), option, value])).code;
	for (const [option, value] of [['--drain-timeout', '30s'], ['--drain-timeout', '1500'], ['--max-disk', '500M'], ['--keep-bytes', '64K'], ['--keep-days', '007'], ['--keep-days', `${'0'.repeat(100)}7`], ['--limit', 'block_size=128K']]) {
		assert.equal(await check(option, value), 0, `${option} ${value}`);
	}
	for (const value of ['', ' 30s', '30s ', '30 s', '+30s', '-30s', '1.5s', '1e3', '0x10', '30m', '30S', '30ss', '9223372036854775807s', '9223372036854775808', '99999999999999999999', 's', `${'0'.repeat(62)}30junk`]) {
		assert.equal(await check('--drain-timeout', value), 2, `--drain-timeout ${value}`);
	}
	for (const value of ['500MB', '500m', '0.5G', '1T', '64 K', '9223372036854775807K', '-1', '0x10K', `${'0'.repeat(60)}500Mjunk`]) {
		assert.equal(await check('--max-disk', value), 2, `--max-disk ${value}`);
	}
	for (const speed of ['0x10', ' 1', '+1', 'inf', 'nan', '1e3', '', '0', '1.5.', '-1']) {
		const { code, stderr } = await runToEnd(['replay', '/dev/null', '--url', 'http://127.0.0.1:1', '--session', 's', '--speed', speed]);
		assert.equal(code, 2, speed);
		assert.match(stderr, /--speed/, speed);
	}
});

test('certificates, keys and public keys in PEM: text around them, CRLF, several blocks (RFC 7468)', async (t) => {
	const dir = scratchDir(t);
	const { cert, key, ca } = makeCert(t);
	const [certText, keyText] = [cert, key].map((file) => readFileSync(file, 'utf8'));
	const other = readFileSync(makeCert(t).cert, 'utf8');
	const file = (name, text) => {
		writeFileSync(join(dir, name), text, { mode: 0o600 });
		return join(dir, name);
	};
	for (const [name, certificate, secret] of [
		['CRLF', certText.replaceAll('\n', '\r\n'), keyText.replaceAll('\n', '\r\n')],
		['text around', `Certificate: of nobody\n\n${certText}\nthe end\n`, `a key\n${keyText}`],
		['without the last end of line', certText.trimEnd(), keyText.trimEnd()],
		['both in one file', certText + keyText, certText + keyText],
		['a byte order mark', `\ufeff${certText}`, `\ufeff${keyText}`],
		['a chain', certText + other, keyText],
	]) {
		const files = { cert: file(`${name}.pem`, certificate), key: file(`${name}.key`, secret), ca };
		const server = await Server.start(t, withTls(files));
		assert.equal((await server.request('GET', '/api/sessions')).status, 200, name);
		await server.stop();
	}
	for (const [name, certificate, secret] of [
		['another certificate first', other + certText, keyText],
		['a chain that is cut', certText + other.slice(0, other.length / 2), keyText],
		['no key', certText, certText],
	]) {
		const { code } = await runToEnd(['serve', '--data', join(dir, 'data'), '--listen', 'https://127.0.0.1:0', '--tls-cert', file(`${name}.pem`, certificate), '--tls-key', file(`${name}.key`, secret)]);
		assert.equal(code, 1, name);
	}
	const keys = [1, 2].map((n) => {
		const path = file(`private-${n}`, openssl('genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256'));
		return openssl('pkey', '-in', path, '-pubout');
	});
	for (const [name, text, isGood] of [['one', keys[0], true], ['a byte order mark', `\ufeff${keys[0]}`, true], ['CRLF', keys[0].replaceAll('\n', '\r\n'), true], ['text around', `Our key\n${keys[0]}of 2026\n`, true], ['two', keys.join(''), false], ['a damaged second', keys[0] + keys[1].slice(0, 80), false]]) {
		const args = ['--auth-public-key', file('public', text), '--auth-issuer', 'us', '--auth-audience', 'holdfast'];
		if (isGood) {
			await (await Server.start(t, { args })).stop();
		} else {
			const { code, stderr } = await runToEnd(['serve', '--data', join(dir, 'data'), '--listen', '127.0.0.1:0', ...args]);
			assert.equal(code, 1, name);
			assert.match(stderr, /no second/, name);
		}
	}
});

test('a webhook as a person types it: capitals, the default port, no path (RFC 3986, section 6.2)', async (t) => {
	const receiver = await Receiver.start(t);
	const server = await Server.start(t, { args: receiver.args(`HTTP://LocalHost:${receiver.port}?from=Holdfast`) });
	await server.createSession({ id: 'one' });
	await post(server, 'one', [input.text('x\n\n'), input.end()]);
	await eventually(() => receiver.requests.length === 1, 'a message');
	assert.deepEqual([receiver.requests[0].path, receiver.requests[0].headers.host], ['/?from=Holdfast', `localhost:${receiver.port}`]);
});

test('Content-Type: the type, in any case, with parameters of any length (RFC 9110, section 8.3.1)', async (t) => {
	const origin = 'https://app.example.org';
	const server = await Server.start(t, { args: ['--allow-origin', origin] });
	await server.createSession({ id: 's' });
	const long = `profile="https://example.org/${'x'.repeat(100)};a,b"`;
	const text = (type, n) => server.request('POST', '/api/sessions/s/events', { body: type.toLowerCase().includes('nd') ? `${JSON.stringify(input.note({ n }))}\n`.repeat(2) : JSON.stringify(input.note({ n })), headers: { 'content-type': type, origin } });
	for (const type of ['application/json', 'Application/JSON; Charset="utf-8"', 'application/json ;charset=utf-8', `application/json;${long}`, 'application/x-ndjson', `APPLICATION/X-NDJSON; ${long}`]) {
		const { status, body } = await text(type, 1);
		assert.ok(status < 300, `${type}: ${status} ${JSON.stringify(body)}`);
	}
	for (const type of ['text/plain', 'application/jsonx', 'application', 'application/json text/plain', 'application/json, text/plain', 'text/plain; application/json', `text/plain; ${long}`]) {
		assert.equal((await text(type, 1)).status, 415, type);
	}
});

test('Stream-TTL and Stream-Expires-At: whole numbers and times of RFC 3339 (Durable Streams, section 5.1)', async (t) => {
	const server = await Server.start(t);
	let n = 0;
	const put = async (headers) => (await ask(server, 'PUT', `s${n++}`, { type: TEXT, headers })).status;
	for (const ttl of ['0', '1', '3600', '315360000000', ' 60\t']) {
		assert.equal(await put({ 'stream-ttl': ttl }), 201, ttl);
	}
	for (const ttl of ['', '+3600', '-1', '0060', '36.5', '1e3', '0x10', '60s', '6 0', '1,2', '9007199254740992', '18446744073709551617']) {
		assert.equal(await put({ 'stream-ttl': ttl }), 400, ttl);
	}
	for (const time of ['2199-12-31T23:59:59Z', '2199-12-31t23:59:60z', '2199-12-31T23:59:59.123456789+23:59', '2196-02-29T00:00:00-00:00']) {
		assert.equal(await put({ 'stream-expires-at': time }), 201, time);
	}
	for (const time of ['', '0', '2199-12-31', '2199-12-31 23:59:59Z', '2199-12-31T23:59Z', '2199-12-31T23:59:59', '2199-12-31T12:30:60Z', '2199-12-31T23:59:60+01:00', '2199-02-29T00:00:00Z', '2199-06-31T00:00:00Z', '2199-12-31T24:00:00Z', '2199-12-31T23:59:59,5Z', '+2199-12-31T23:59:59Z', '4102444800']) {
		assert.equal(await put({ 'stream-expires-at': time }), 400, time);
	}
});

test('text of a producer that is cut inside a character is refused, and takes nothing else with it', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 's' });
	const chunk = (text) => `{"type":"agent_message_chunk","data":{"text":"${text}"}}`;
	const halves = ['smile \\ud83d', '\\ude00 smile'].map(chunk);
	const path = '/api/sessions/s/events';
	for (const half of halves) {
		for (const type of ['application/json', 'application/x-ndjson']) {
			const { status, body } = await server.request('POST', path, { body: `${half}\n`, headers: { 'content-type': type } });
			assert.deepEqual([status, body.error.code], [400, 'bad_json'], `${half} ${type}`);
		}
	}
	const bytes = Buffer.from(chunk('smile 😀'));
	const cut = Buffer.concat([bytes.subarray(0, bytes.indexOf(0xf0) + 2), Buffer.from('"}}')]);
	for (const type of ['application/json', 'application/x-ndjson']) {
		const { status, body } = await server.request('POST', path, { body: cut, headers: { 'content-type': type } });
		assert.deepEqual([status, body.error.code], [400, 'bad_utf8'], type);
	}
	const producer = await Producer.connect(t, server, 's');
	for (const half of halves) {
		const from = producer.frames.length;
		await producer.sendRaw(`{"type":"append","data":{"ref":1,"events":[${half}]}}`);
		assert.equal((await producer.waitFor(({ type }) => type === 'error', { from })).data.code, 'bad_json', half);
	}
	await producer.append(input.text('a whole '), JSON.parse(chunk('\\ud83d\\ude00\\n\\n')), input.end());
	await producer.sendRaw(cut, { binary: false });
	await producer.waitUntil(() => producer.closed?.code === 1007 || producer.frames.some(({ data }) => data?.code === 'bad_utf8'), 'the end');
	assert.equal(markdownOf(await servedLog(server)).trimEnd(), 'a whole 😀');
});
