/** What the agent asks for: a form, or an address to go to; and, once it is answered, how and by whom. Everything of it is the agent's, and is set as text. */
import { hooks, marks } from './card-parts.js';
import { h, icon, visible } from './dom.js';
import { isUs, may, nameOf } from './rights.js';

/** @typedef {import('../client/holdfast-client.js').Item} Item */
/** @typedef {import('./cards.js').CardContext} CardContext */

const DONE = { accept: 'answered', decline: 'declined', cancel: 'withdrawn' };

/** @param {Item} item @param {CardContext} context */
export function renderElicitation(item, context) {
	const asked = item.events.find(({ type }) => type === 'elicitation_request');
	const resolved = item.events.find(({ type }) => type === 'elicitation_resolved');
	const first = asked ?? item.events[0];
	const attributes = { ...hooks(first), 'data-request-id': first.data.request_id, role: 'group', 'aria-label': 'Question of the agent' };
	if (resolved || !asked) {
		return h('div', { class: 'item line-item permission', ...attributes, 'data-resolved': resolved?.data.action },
			icon(resolved?.data.action === 'accept' ? 'check' : 'close'),
			h('span', { dir: 'auto' }, visible(asked?.data.message ?? 'A question'), ': ', ...doneWords(resolved?.data ?? {}, context)),
			...marks(item));
	}
	return h('div', { class: 'item card permission', ...attributes },
		h('div', { class: 'card-head' }, icon('alert'), h('span', { class: 'card-title' }, 'The agent asks')),
		h('div', { class: 'card-body' },
			h('p', { class: 'permission-what' }, h('span', { dir: 'auto' }, visible(asked.data.message))),
			may('prompt') ? form(asked.data, context) : h('p', { class: 'muted', 'data-testid': 'permission-waits' }, 'It waits for an answer.')),
		...marks(item));
}

/** @param {any} data @param {CardContext} context @returns {(Node | string)[]} */
function doneWords({ action, by = '', sub, name }, { clientId }) {
	const words = DONE[/** @type {keyof typeof DONE} */ (action)] ?? String(action);
	return [h('b', {}, words), by && ' by ', by && h('span', { title: by }, isUs(by, sub, clientId) ? 'you' : visible(nameOf(by, sub, name)))].filter(Boolean);
}

/** @param {any} data @param {CardContext} context */
function form(data, { elicit }) {
	const { request_id: id } = data;
	const fields = Object.entries(data.requested_schema?.properties ?? {}).map(([name, schema], i) => {
		const isNeeded = data.requested_schema.required?.includes(name) ?? false;
		return { name, schema, isNeeded, input: inputOf(schema, isNeeded, `${id}-${i}`) };
	});
	const submit = (/** @type {Event} */ event) => {
		event.preventDefault();
		const content = Object.fromEntries(fields.map(({ name, schema, input }) => [name, valueOf(schema, input)]).filter(([, value]) => value !== undefined));
		elicit(id, 'accept', data.mode === 'form' ? content : undefined);
	};
	const button = (/** @type {string} */ action, /** @type {string} */ words) =>
		h('button', { type: 'button', class: 'button', 'data-testid': `elicitation-${action}`, onclick: () => elicit(id, action) }, words);
	return h('form', { class: 'elicitation', autocomplete: 'off', onsubmit: submit },
		...fields.map(({ name, schema, isNeeded, input }) => field(name, schema, isNeeded, input)),
		...(data.mode === 'url' ? [link(data.url)] : []),
		h('div', { class: 'permission-options' },
			h('button', { type: 'submit', class: 'button primary', 'data-testid': 'elicitation-accept' }, data.mode === 'url' ? 'I have opened it' : 'Send'),
			button('decline', 'Decline'),
			button('cancel', 'Dismiss')));
}

/** Only http and https, and shown whole: whoever goes there checks it first. @param {string} url */
function link(url) {
	if (!/^https?:\/\//.test(url)) {
		return h('p', { class: 'elicitation-url' }, visible(url));
	}
	return h('div', {},
		h('p', { class: 'muted' }, 'Check this address before you open it:'),
		h('p', { class: 'elicitation-url' }, h('a', { href: url, target: '_blank', rel: 'noopener noreferrer', 'data-testid': 'elicitation-link' }, visible(url))));
}

/** @param {string} name @param {any} schema @param {boolean} isNeeded @param {any} input */
function field(name, schema, isNeeded, input) {
	const words = visible(schema.title ?? name) + (isNeeded ? '' : ' (optional)');
	const about = schema.description ? h('span', { class: 'muted' }, visible(schema.description)) : '';
	return schema.type === 'array'
		? h('fieldset', { class: 'elicitation-field', 'data-field': name }, h('legend', {}, words), about, input)
		: h('label', { class: 'elicitation-field', 'data-field': name }, h('span', { dir: 'auto' }, words), about, input);
}

/** @param {any} schema @returns {{value: string, words: string}[] | null} */
function choicesOf({ enum: values, oneOf, anyOf }) {
	const titled = oneOf ?? anyOf;
	return titled ? titled.map((/** @type {any} */ one) => ({ value: one.const, words: one.title ?? one.const }))
		: (values?.map((/** @type {string} */ value) => ({ value, words: value })) ?? null);
}

/** @param {any} schema @param {boolean} isNeeded @param {string} id @returns {any} */
function inputOf(schema, isNeeded, id) {
	const initial = schema.default;
	const choices = choicesOf(schema);
	if (schema.type === 'array') {
		return h('div', {}, ...(choicesOf(schema.items) ?? []).map(({ value, words }) =>
			h('label', {}, h('input', { type: 'checkbox', name: id, value, checked: Array.isArray(initial) && initial.includes(value) }), ' ', visible(words))));
	}
	if (choices) {
		return h('select', { required: isNeeded, name: id },
			h('option', { value: '' }, '–'),
			...choices.map(({ value, words }) => h('option', { value: `=${value}`, selected: value === initial }, visible(words))));
	}
	if (schema.type === 'boolean') {
		return h('input', { type: 'checkbox', name: id, checked: initial === true });
	}
	if (schema.type === 'string') {
		const type = { email: 'email', uri: 'url', date: 'date' }[/** @type {'email'} */ (schema.format)] ?? 'text';
		return h('input', { type, name: id, required: isNeeded, minlength: schema.minLength, maxlength: schema.maxLength, value: typeof initial === 'string' ? initial : null });
	}
	return h('input', { type: 'number', name: id, required: isNeeded, min: schema.minimum, max: schema.maximum, step: schema.type === 'integer' ? 1 : 'any', value: typeof initial === 'number' ? initial : null });
}

/** undefined: it is left out. @param {any} schema @param {any} input */
function valueOf(schema, input) {
	if (schema.type === 'array') {
		const chosen = [...input.querySelectorAll('input:checked')].map(({ value }) => value);
		return chosen.length > 0 ? chosen : undefined;
	}
	if (schema.type === 'boolean') {
		return input.checked;
	}
	if (input.value === '') {
		return undefined;
	}
	if (input.tagName === 'SELECT') {
		return input.value.slice(1);
	}
	return schema.type === 'string' ? input.value : Number(input.value);
}
