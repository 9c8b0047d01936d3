/** The options of a new session: its agent, if there are several, and its directory. This browser remembers the last ones. */
import { listAgents, listDirectories } from '../client/holdfast-client.js';
import { DirectoryBox } from './directory-box.js';
import { h, icon, visible } from './dom.js';

const KEPT = 'holdfast new session'; // gate.js forgets it when somebody signs out

/** @typedef {{name: string, title: string, is_demo: boolean, roots?: string[], fault?: string}} Agent */

/** A title that is only the program of a command, such as a shell. */
const LAUNCHERS = /^(npx|bunx|uvx|pnpm|npm|node|bun|deno|python[\d.]*|sh|bash|env|docker|podman|nice)$/;

export class NewSession {
	#element;
	#changed;
	/** Not known yet: null. @type {Agent[] | null} */
	#agents = null;
	/** @type {Agent | null} */
	#agent = null;
	/** The agent chosen last, and the directory of each. @type {{agent?: string, directories: Record<string, string>}} */
	#kept = read();
	/** @type {HTMLSelectElement} */
	#select = h('select', { class: 'choice-agent', 'aria-label': 'Agent', 'data-testid': 'agent' });
	#field = h('label', { class: 'choice-field', title: 'The agent of the new session' }, icon('execute'), this.#select);
	#fault = h('p', { class: 'choice-fault', role: 'status', 'data-testid': 'agent-fault', hidden: true });
	#box;

	/** @param {HTMLElement} element @param {{changed: () => void, done: () => void}} handlers */
	constructor(element, { changed, done }) {
		this.#element = element;
		this.#changed = changed;
		this.#box = new DirectoryBox({
			find: (path) => listDirectories({ ...(this.#agent && { agent: this.#agent.name }), path }),
			changed: () => this.#agent && (this.#kept.directories[this.#agent.name] = this.#box.value),
			done,
		});
		element.append(this.#fault, this.#field, this.#box.element);
		this.#select.addEventListener('change', () => this.#choose(this.#select.value));
	}

	/** Asks the server, whose agents may have changed. */
	async load() {
		try {
			this.#agents = await listAgents();
		} catch {
			return; // the next connection asks again
		}
		this.#select.replaceChildren(
			...this.#agents.map(({ name, title }) => h('option', { value: name }, visible(title))),
		);
		this.#choose(this.#agent?.name ?? this.#kept.agent ?? '');
	}

	/** The agent of a new session; null: none, or not known yet. */
	get agent() {
		return this.#agent;
	}

	/** Whether the server has no agents. */
	get hasNone() {
		return this.#agents?.length === 0;
	}

	/** The agent of a session, and why it takes no prompts. @param {any} session null: a new one */
	about(session) {
		const agents = this.#agents ?? [];
		const agent = !session ? this.#agent : session.agent ? agents.find(({ name }) => name === session.agent) : agents[0];
		const none = this.hasNone ? 'This server has no agent' : 'The agent of this session is no longer offered';
		return { agent: agent ?? null, lack: agent || !this.#agents ? '' : none };
	}

	/** What to call the session's agent while it starts. @param {any} session */
	nameOf(session) {
		const { agent } = this.about(session);
		return agent && !LAUNCHERS.test(agent.title) ? visible(agent.title) : 'the agent';
	}

	/** Where a session works. @param {HTMLElement} element @param {any} session null: a new one */
	showPlace(element, session) {
		const { agent } = this.about(session ?? {});
		const name = session?.agent && (this.#agents?.length ?? 0) > 1 ? (agent?.title ?? session.agent) : '';
		const words = [name, session?.cwd].filter(Boolean).map(visible);
		element.textContent = words.join(' · ');
		element.title = element.textContent;
		element.hidden = words.length === 0;
	}

	/** @param {boolean} isNew whether there is a new session to make */
	show(isNew) {
		const hasPlace = this.#agent?.roots !== undefined && !this.#agent.is_demo;
		this.#field.hidden = (this.#agents?.length ?? 0) < 2;
		this.#box.element.hidden = !hasPlace;
		const fault = this.#agent?.fault ?? '';
		const words = fault && `${visible(this.#agent?.title)} could not be started when the server started: ${visible(fault)}.`;
		this.#fault.hidden = words === '';
		if (this.#fault.textContent !== words) {
			this.#fault.textContent = words;
		}
		this.#element.hidden = !isNew || (this.#field.hidden && !hasPlace && words === '');
	}

	/** For createSession(), without the server's defaults. */
	get choice() {
		const agent = this.#agent;
		const cwd = agent && this.#box.value;
		return {
			...(agent && agent !== this.#agents?.[0] && { agent: agent.name }),
			...(cwd && cwd !== agent.roots?.[0] && { cwd }),
		};
	}

	/** The same for its files: null without an agent. */
	get place() {
		return this.#agent && this.choice;
	}

	/** A session was created so: offers the same next time. */
	keep() {
		this.#kept.agent = this.#agent?.name;
		try {
			localStorage.setItem(KEPT, JSON.stringify(this.#kept));
		} catch {
			// then it is forgotten with this tab
		}
	}

	/** The server has refused to create one. @param {string | undefined} code of its error */
	refuse(code) {
		if (code === 'bad_directory') {
			this.#box.focus();
		} else if (code === 'unknown_agent') {
			void this.load();
		}
	}

	#choose(/** @type {string} */ wanted) {
		const agents = this.#agents ?? [];
		const agent = agents.find(({ name }) => name === wanted) ?? agents[0] ?? null;
		this.#agent = agent;
		if (agent) {
			const roots = agent.roots ?? [];
			const kept = Object.hasOwn(this.#kept.directories, agent.name) ? this.#kept.directories[agent.name] : '';
			this.#select.value = agent.name;
			this.#box.set(roots, isWithin(kept, roots) ? kept : (roots[0] ?? ''));
		}
		this.#changed();
	}
}

/** @param {string} path @param {string[]} roots */
function isWithin(path, roots) {
	return roots.some((root) => path === root || path.startsWith(root === '/' ? root : `${root}/`));
}

/** @returns {{agent?: string, directories: Record<string, string>}} */
function read() {
	try {
		const { agent, directories } = JSON.parse(localStorage.getItem(KEPT) ?? '');
		const pairs = Object.entries(directories).filter(([, path]) => typeof path === 'string');
		return { agent: String(agent), directories: /** @type {any} */ (Object.fromEntries(pairs)) };
	} catch {
		return { directories: {} };
	}
}
