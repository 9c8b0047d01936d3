// Clients of several roles at once, right requests and wrong ones in random order, on sessions that come and go, with tokens
// that are taken back meanwhile. A model of proto/access.md says what each of them gets; in the end the logs have what was
// acknowledged and nothing else, and each observer has seen what its token lets it see.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { partOf } from '../support/part.mjs';
import { randomNumbers } from '../support/recording.mjs';
import { Server } from '../support/server.mjs';
import { claims, makeToken, ownToken, secretOf } from '../support/tokens.mjs';

const SEEDS = process.env.HOLDFAST_ROLES_SEEDS?.split(' ').map(Number) ?? partOf([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
const STEPS = Number(process.env.HOLDFAST_ROLES_STEPS ?? 60);

const IDS = ['team-a', 'team-b', 'team-c', 'other', 'other-b'];
/** The rights of each role, as the table of proto/access.md has them. */
const RIGHTS = {
	observer: ['watch'],
	controller: ['watch', 'control', 'create', 'label'],
	producer: ['watch', 'append', 'create'],
	admin: ['watch', 'control', 'append', 'create', 'label', 'delete', 'administer'],
};
const ACTORS = [
	{ sub: 'ann', role: 'controller', sessions: ['team-*'] },
	{ sub: 'bob', role: 'controller', sessions: ['team-a', 'other'] },
	{ sub: 'bot', role: 'producer', sessions: ['team-*', 'other'] },
	{ sub: 'robot', role: 'producer', sessions: ['other*'] },
	{ sub: 'eve', role: 'observer', sessions: ['*'] },
	{ sub: 'joe', role: 'observer', sessions: ['team-b'] },
	{ sub: 'root', role: 'admin', sessions: ['*'] },
	{ sub: 'half', role: 'admin', sessions: ['team-*'] },
	{ sub: 'gone', role: 'controller', sessions: ['*'], willBeRevoked: true },
	{ sub: 'away', role: 'producer', sessions: ['*'], willBeRevoked: true },
];

/** Something that changes: whoever asks while it changes may get the old answer or the new one. */
class Changing {
	#changes = 0;
	#pending = 0;

	constructor(value) {
		this.value = value;
	}

	async change(value, act) {
		this.#changes++;
		this.#pending++;
		try {
			const did = await act();
			this.value = did ? value : this.value;
			return did;
		} finally {
			this.#changes++;
			this.#pending--;
		}
	}

	/** The values that it has had between now and the call of the function that this returns. */
	watch() {
		const [value, changes, pending] = [this.value, this.#changes, this.#pending];
		return () => (changes === this.#changes && pending === 0 ? [value] : [true, false]);
	}
}

class Story {
	constructor(t, server, seed) {
		this.t = t;
		this.server = server;
		this.random = randomNumbers(seed);
		this.sessions = new Map(IDS.map((id) => [id, new Changing(false)]));
		this.appended = []; // {id, text}: acknowledged; of the session's present life
		this.refused = []; // texts that must be nowhere
		this.answers = 0;
		this.actors = ACTORS.map((actor) => ({
			...actor,
			token: ownToken(server, actor.role, actor.sessions, { sub: actor.sub, exp: Math.floor(Date.now() / 1000) + 600 }),
			isRevoked: new Changing(false),
			sockets: new Map(),
		}));
		this.texts = 0;
	}

	pick(list) {
		return list[this.random(list.length)];
	}

	sees(actor, id) {
		return actor.sessions.some((p) => (p.endsWith('*') ? id.startsWith(p.slice(0, -1)) : p === id));
	}

	/** What the model expects of a request about a session: statuses that are right. */
	expected({ actor, right, id, isRevoked, exists }) {
		if (isRevoked) {
			return [401];
		}
		if (id !== null && !this.sees(actor, id)) {
			return [404];
		}
		if (!RIGHTS[actor.role].includes(right)) {
			return exists ? [403] : [403, 404];
		}
		return exists ? [200] : [404];
	}

	/** Sends a request and holds the answer against the model. Gives it. */
	async ask(actor, right, id, method, path, json) {
		const revoked = actor.isRevoked.watch();
		const existed = id === null ? () => [true] : this.sessions.get(id).watch();
		const answer = await this.server.request(method, path, { json, headers: { authorization: `Bearer ${actor.token}` } });
		const wanted = revoked().flatMap((isRevoked) => existed().flatMap((exists) => this.expected({ actor, right, id, isRevoked, exists })));
		const got = [201, 204].includes(answer.status) || answer.body?.error?.code === 'no_agent' ? 200 : answer.status;
		assert.ok(wanted.includes(got), `${actor.sub} (${actor.role}): ${method} ${path}: ${got}, not ${wanted}: ${JSON.stringify(answer.body)}`);
		if (got !== 200) {
			assert.ok(!JSON.stringify(answer.body).includes('secret-'), 'a refusal says nothing of a session');
			this.answers++;
		}
		return { ...answer, isDone: got === 200 };
	}

	async append(actor, id) {
		const text = `secret-${this.seed}-${++this.texts}. `;
		const { isDone } = await this.ask(actor, 'append', id, 'POST', `/api/sessions/${id}/events`, [
			{ type: 'agent_message_chunk', data: { text } },
			{ type: 'text_complete', data: {} },
		]);
		isDone ? this.appended.push({ id, text }) : this.refused.push(text);
	}

	async create(actor, id) {
		// Who may create, but not this one, gets 403; a session that is there is a conflict.
		const session = this.sessions.get(id);
		const revoked = actor.isRevoked.watch();
		const existed = session.watch();
		let status;
		const may = RIGHTS[actor.role].includes('create') && this.sees(actor, id);
		const send = async () => {
			({ status } = await this.server.request('POST', '/api/sessions', { json: { id, title: 'secret-title' }, headers: { authorization: `Bearer ${actor.token}` } }));
			return status === 201;
		};
		const before = existed();
		await (may ? session.change(true, send) : send());
		const wanted = revoked().map((isRevoked) => (isRevoked ? [401] : !may ? [403] : before.length === 1 && before[0] ? [409, 201] : [201, 409])).flat();
		assert.ok(wanted.includes(status), `${actor.sub} creates ${id}: ${status}, not ${wanted}`);
	}

	async remove(actor, id) {
		const session = this.sessions.get(id);
		const may = RIGHTS[actor.role].includes('delete') && this.sees(actor, id);
		if (!may) {
			await this.ask(actor, 'delete', id, 'DELETE', `/api/sessions/${id}`);
			return;
		}
		await session.change(false, async () => {
			const { status } = await this.server.request('DELETE', `/api/sessions/${id}`, { headers: { authorization: `Bearer ${actor.token}` } });
			assert.ok([204, 404, 401].includes(status), `${status}`);
			if (status === 204) {
				this.appended = this.appended.filter((a) => a.id !== id);
			}
			return status === 204;
		});
	}

	async list(actor) {
		const { body, isDone } = await this.ask(actor, 'watch', null, 'GET', '/api/sessions');
		const ids = isDone ? body.sessions.map((s) => s.id) : [];
		assert.deepEqual(ids.filter((id) => !this.sees(actor, id)), [], `${actor.sub} sees them`);
	}

	/** What is found is of what the actor sees. */
	async search(actor, id) {
		const one = await this.ask(actor, 'watch', id, 'GET', `/api/sessions/${id}/search?q=SECRET-`);
		assert.ok(!one.isDone || one.body.hits.every((hit) => hit.snippet.includes('secret-')));
		const all = await this.ask(actor, 'watch', null, 'GET', '/api/search?q=secret-');
		assert.deepEqual(all.isDone ? all.body.hits.filter((hit) => !this.sees(actor, hit.session_id)) : [], [], `${actor.sub} finds them`);
	}

	/** A socket of the actor's; and then a frame of every kind, of which the model says what comes. */
	async socket(actor, id) {
		let observer = actor.sockets.get(id);
		if (!observer || observer.closed) {
			observer = new Observer(this.t, this.server.ws(`/api/sessions/${id}/ws?format=markdown`), () => null, { headers: { authorization: `Bearer ${actor.token}` } });
			await observer.waitUntil(() => observer.frames.length > 0 || observer.refusal || observer.closed, 'an answer').catch(() => {});
			if (observer.refusal) {
				assert.ok(actor.isRevoked.watch()().includes(true), `${actor.sub} is refused at ${id}: ${observer.refusal.body}`);
				return;
			}
			if (!this.sees(actor, id)) {
				assert.equal(observer.frames[0].type, 'session_gone');
				assert.equal(observer.frames[0].data.reason, 'not_found');
				return;
			}
			if (observer.frames[0]?.type !== 'connected') {
				const why = observer.frames[0]?.data;
				assert.ok(['not_found', 'deleted'].includes(why?.reason) || ['storage_failed', 'token_revoked'].includes(why?.code), JSON.stringify(why));
				return; // it is being made, is gone, or there is none
			}
			actor.sockets.set(id, observer);
			await observer.load({ after_seq: 0 }).catch(() => {});
			return;
		}
		const from = observer.frames.length;
		const [type, data, right] = this.pick([
			['prompt', { message: `secret-prompt-${++this.texts}`, prompt_id: `p${this.texts}` }, 'control'],
			['cancel', {}, 'control'],
			['permission_answer', { request_id: 'none', option_id: 'yes' }, 'control'],
			['delete_everything', {}, 'nobody'],
		]);
		await observer.send(type, data).catch(() => {});
		const error = await observer.waitFor((f) => ['error', 'cancelled'].includes(f.type) || (f.type === 'ack'), { from, ms: 5000 }).catch(() => null);
		if (error?.type === 'error' && !['shutting_down', 'token_revoked'].includes(error.data.code)) {
			const isForbidden = error.data.code === 'forbidden';
			assert.equal(isForbidden, right !== 'nobody' && !RIGHTS[actor.role].includes(right), `${actor.sub} (${actor.role}) sends ${type}: ${error.data.code}`);
			this.answers++;
		}
	}

	/** A token that is none, or not for now: nothing, and nobody is told anything. */
	async wrong(actor, id) {
		const now = Math.floor(Date.now() / 1000);
		const good = claims(actor.role, ['*'], { sub: actor.sub });
		const token = this.pick([
			makeToken({ ...good, exp: now - 5 }, secretOf(this.server)),
			makeToken({ ...good, nbf: now + 60 }, secretOf(this.server)),
			makeToken(good, 'y'.repeat(40)),
			makeToken(good, null, { alg: 'none' }),
			actor.token.slice(0, -3),
			`${actor.token}A`,
			'null',
		]);
		const text = `secret-${this.seed}-${++this.texts}. `;
		const { status } = await this.server.request('POST', `/api/sessions/${id}/events?create=1`, {
			json: [{ type: 'agent_message_chunk', data: { text } }],
			headers: { authorization: `Bearer ${token}` },
		});
		assert.ok([401, 429].includes(status), `${status}`);
		this.refused.push(text);
	}

	async revoke(actor) {
		const root = this.actors.find((a) => a.sub === 'root');
		await actor.isRevoked.change(true, async () => {
			const { status } = await this.server.request('POST', '/api/tokens/revoke', { json: { sub: actor.sub, before: Date.now() }, headers: { authorization: `Bearer ${root.token}` } });
			assert.ok([200, 204].includes(status), `${status}`);
			return true;
		});
		for (const observer of actor.sockets.values()) {
			await observer.waitUntil(() => observer.closed, 'the end of a revoked socket').catch(() => {});
			assert.ok([4403, 4404].includes(observer.closed?.code), `${observer.closed?.code}: ${JSON.stringify(observer.frames.slice(-3))}`);
		}
	}

	async live(actor, steps) {
		for (let step = 0; step < steps; step++) {
			const id = this.pick(IDS);
			const act = this.pick(['append', 'append', 'append', 'create', 'create', 'socket', 'socket', 'socket', 'read', 'read', 'search', 'queue', 'files', 'label', 'list', 'remove', 'wrong', 'revoke others']);
			switch (act) {
			case 'read': {
				const { body, isDone } = await this.ask(actor, 'watch', id, 'GET', `/api/sessions/${id}/events?after_seq=0&format=markdown`);
				assert.ok(!isDone || body.events.every((e, i) => e.seq === i + 1));
				break;
			}
			case 'search': await this.search(actor, id); break;
			case 'label': await this.ask(actor, 'label', id, 'PATCH', `/api/sessions/${id}`, { pinned: true }); break;
			case 'files': await this.ask(actor, 'control', id, 'GET', `/api/sessions/${id}/files?prefix=x`); break;
			case 'queue': await this.ask(actor, 'watch', id, 'GET', `/api/sessions/${id}/queue`); break;
			case 'revoke others': await (actor.role === 'admin' || this.ask(actor, 'administer', null, 'POST', '/api/tokens/revoke', { sub: 'root' })); break;
			case 'remove': await (this.random(4) > 0 || this.remove(actor, id)); break;
			default: await this[act](actor, id);
			}
			if (actor.willBeRevoked && step === Math.floor(steps / 2)) {
				await this.revoke(actor);
			}
		}
	}
}

for (const seed of SEEDS) {
	test(`clients of several roles at once, seed ${seed}`, async (t) => {
		const server = await Server.start(t, { args: ['--limit', 'wrong_tokens=3'] });
		const story = new Story(t, server, seed);
		story.seed = seed;
		const root = story.actors.find((a) => a.sub === 'root');
		for (const id of IDS.slice(0, 3)) {
			await story.create(root, id);
		}
		await Promise.all(story.actors.map((actor) => story.live(actor, STEPS)));
		assert.ok(story.answers > STEPS, 'many were refused');
		assert.ok(story.appended.length > 0, 'and some were not');

		const { body } = await server.request('GET', '/api/sessions');
		const there = [...story.sessions].filter(([, s]) => s.value).map(([id]) => id);
		assert.deepEqual(body.sessions.map((s) => s.id).sort(), there.sort());
		for (const id of there) {
			const { body: log } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=5000&format=markdown`);
			const texts = log.events.filter((e) => e.type === 'agent_message').map((e) => e.data.text ?? e.data.markdown).join('');
			for (const { text } of story.appended.filter((a) => a.id === id)) {
				assert.equal(texts.split(text.trim()).length, 2, `${text} is in the log of ${id} once`);
			}
			assert.deepEqual(story.refused.filter((text) => JSON.stringify(log).includes(text.trim())), [], 'what was refused');
			assert.equal(log.events.filter((e) => e.type === 'user_prompt').length, 0, 'there is no agent to prompt');
			for (const actor of story.actors) {
				const observer = actor.sockets.get(id);
				if (observer && !observer.closed && observer.frames[0].type === 'connected' && observer.isLive) {
					await observer.waitUntil(() => observer.last >= log.max_seq, `${actor.sub} has all of ${id}`);
					assert.deepEqual(observer.events().map((e) => [e.seq, e.type]), log.events.map((e) => [e.seq, e.type]));
				}
			}
			assert.equal(readLog(server, id).length, log.events.length);
		}
	});
}
