/** The agent's mode and options, below the prompt: the current values and the choices. */
import { h, visible } from './dom.js';

const SETTINGS_MAX = 6;
const CHOICES_MAX = 200;
const NAME_MAX = 80;
const SPEAKING = ['mode', 'model']; // these need no label: the value is enough

/** @typedef {{label: string, isNamed?: boolean, about: string, value: any, choices: [string, string][] | null, choose: (value: any) => void}} Setting choices: null if it is on or off */

/** @param {unknown} text */
const short = (text) => visible(String(text ?? '')).slice(0, NAME_MAX);

/** The values of a select, which may be in groups. @param {any} options @returns {[string, string][]} */
function choicesOf(options) {
	const items = Array.isArray(options) ? options : [];
	return items
		.flatMap((item) => (Array.isArray(item?.options) ? item.options : [item]))
		.filter((item) => typeof item?.value === 'string')
		.map(({ value, name }) => /** @type {[string, string]} */ ([value, short(name ?? value)]));
}

export class AgentSettings {
	#element;
	#handlers;
	/** @type {any} the settings shown */
	#agent = null;

	/**
	 * @param {HTMLElement} element
	 * @param {{setMode: (id: string) => void, setModel: (id: string) => void, setConfigOption: (id: string, value: string | boolean) => void}} handlers
	 */
	constructor(element, handlers) {
		this.#element = element;
		this.#handlers = handlers;
	}

	/** @param {any} agent of a client, or null @param {boolean} canSet */
	show(agent, canSet) {
		if (agent !== this.#agent) {
			this.#agent = agent;
			this.restore();
		}
		this.#element.querySelectorAll('select, input').forEach((/** @type {any} */ field) => {
			field.disabled = !canSet;
		});
	}

	/** Shows the current values, not the requested ones. */
	restore() {
		const had = /** @type {HTMLElement | null} */ (document.activeElement);
		const name = this.#element.contains(had) ? had?.getAttribute('name') : null;
		const settings = this.#agent ? this.#settings() : [];
		this.#element.replaceChildren(...settings.slice(0, SETTINGS_MAX).map(fieldOf));
		this.#element.hidden = settings.length === 0;
		if (name) {
			const all = [...this.#element.querySelectorAll('select, input')];
			/** @type {any} */ (all.find((field) => field.getAttribute('name') === name))?.focus();
		}
	}

	/** An agent's option for its mode or model replaces the plain one. @returns {Setting[]} */
	#settings() {
		const options = this.#agent.config_options;
		const has = (/** @type {string} */ wanted) => options.some((/** @type {any} */ { category, id }) => category === wanted || (!category && id === wanted));
		return [
			...(has('mode') ? [] : this.#mode()),
			...(has('model') ? [] : this.#model()),
			...options.flatMap((/** @type {any} */ option) => this.#option(option)),
		];
	}

	/** @returns {Setting[]} */
	#model() {
		const { available_models: all, current_model_id: value } = this.#agent.models ?? {};
		const models = (Array.isArray(all) ? all : []).filter((one) => typeof one?.model_id === 'string');
		const model = {
			label: 'Model',
			about: models.find(({ model_id: id }) => id === value)?.description,
			value,
			choices: models.map(({ model_id: id, name }) => /** @type {[string, string]} */ ([id, short(name ?? id)])),
			choose: this.#handlers.setModel,
		};
		return models.length > 0 ? [model] : [];
	}

	/** @returns {Setting[]} */
	#mode() {
		const { modes, current_mode } = this.#agent;
		if (modes.length === 0) {
			return [];
		}
		const mode = {
			label: 'Mode',
			about: modes.find((/** @type {any} */ { id }) => id === current_mode)?.description,
			value: current_mode,
			choices: modes.map((/** @type {any} */ { id, name }) => [id, short(name ?? id)]),
			choose: this.#handlers.setMode,
		};
		return [mode];
	}

	/** @param {any} option @returns {Setting[]} none if it is of a kind that is not known */
	#option({ id, name, description, category, type, current_value: value, options }) {
		const isSwitch = type === 'boolean';
		const choices = isSwitch ? null : choicesOf(options);
		const setting = {
			label: short(name ?? id),
			isNamed: !SPEAKING.includes(category),
			about: description,
			value,
			choices,
			choose: (/** @type {any} */ chosen) => this.#handlers.setConfigOption(id, chosen),
		};
		return isSwitch || (type === 'select' && choices && choices.length > 0) ? [setting] : [];
	}
}

/** @param {Setting} setting */
function fieldOf({ label, isNamed, about, value, choices, choose }) {
	const title = about ? `${label}: ${visible(about)}` : label;
	if (!choices) {
		const box = h('input', { type: 'checkbox', name: label, checked: value === true });
		box.addEventListener('change', () => choose(box.checked));
		return h('label', { class: 'setting', title }, box, label);
	}
	const select = h('select', { class: 'setting', 'aria-label': label, name: label, title });
	const shown = choices.slice(0, CHOICES_MAX);
	if (!shown.some(([id]) => id === value)) {
		shown.unshift([String(value ?? ''), short(value ?? label)]);
	}
	select.append(
		...shown.map(([id, name]) => h('option', { value: id, selected: id === value }, name)),
	);
	select.addEventListener('change', () => choose(select.value));
	return isNamed ? h('label', { class: 'setting-with-name', title }, `${label}:`, select) : select;
}
