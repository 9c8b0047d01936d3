/** The form of what the agent asks for, or the link to its address. The card around it is in elicitation-card.js. */
import { h, visible } from './dom.js';

/** @typedef {import('./cards.js').CardContext} CardContext */

/**
 * Made again with each change of its card; the elements on the page are then updated. A form that is new to the page gets the values typed into the
 * previous one.
 * @param {any} data @param {CardContext} context @returns {HTMLElement}
 */
export function elicitationForm(data, { elicit, answering, typed }) {
	const { request_id: id } = data;
	const going = answering.get(id);
	const fields = Object.entries(data.requested_schema?.properties ?? {}).map(([name, schema], i) => {
		const isNeeded = data.requested_schema.required?.includes(name) ?? false;
		return { name, schema, isNeeded, input: inputOf(schema, isNeeded, `${id}-${i}`) };
	});
	const submit = (/** @type {Event} */ event) => {
		event.preventDefault();
		const content = Object.fromEntries(fields.map(({ name, schema, input }) => [name, valueOf(schema, input)]).filter(([, value]) => value !== undefined));
		elicit(id, 'accept', data.mode === 'form' ? content : undefined);
	};
	const button = (/** @type {string} */ action, /** @type {string} */ words, /** @type {object} */ how) =>
		h('button', { type: 'button', class: 'button', 'data-testid': `elicitation-${action}`, 'aria-busy': going === action ? 'true' : null, ...how }, words);
	const form = h('form', { class: 'elicitation', autocomplete: 'off', onsubmit: submit, oninput: () => typed.set(id, controlsOf(form).map(stateOf)) },
		...fields.map(({ name, schema, isNeeded, input }) => field(name, schema, isNeeded, input)),
		...(data.mode === 'url' ? [link(data.url)] : []),
		h('div', { class: 'permission-options' },
			button('accept', data.mode === 'url' ? 'I have opened it' : 'Send', { type: 'submit', class: 'button primary' }),
			button('decline', 'Decline', { onclick: () => elicit(id, 'decline') }),
			button('cancel', 'Dismiss', { onclick: () => elicit(id, 'cancel') }),
			h('span', { class: 'muted', role: 'status', 'data-testid': 'elicitation-going' }, going === undefined ? '' : h('bdi', {}, 'Your answer is on its way.'))));
	typed.get(id)?.forEach((state, i) => Object.assign(controlsOf(form)[i], state));
	if (going !== undefined) {
		form.querySelectorAll('input, select, button').forEach((/** @type {Element} */ control) => control.setAttribute('disabled', ''));
	}
	return form;
}

/** @param {HTMLFormElement} form @returns {any[]} */
function controlsOf(form) {
	return [...form.querySelectorAll('input, select')];
}

/** The value of a control. @param {any} control */
function stateOf({ type, checked, value }) {
	return type === 'checkbox' ? { checked } : { value };
}

/** A link, http and https only, shown in full so that it can be checked. @param {string} url */
function link(url) {
	if (!/^https?:\/\//.test(url)) {
		return h('p', { class: 'elicitation-url' }, visible(url));
	}
	return h('div', {},
		h('p', { class: 'muted' }, h('bdi', {}, 'Check this address before you open it:')),
		h('p', { class: 'elicitation-url' }, h('a', { href: url, target: '_blank', rel: 'noopener noreferrer', 'data-testid': 'elicitation-link' }, visible(url))));
}

/** @param {string} name @param {any} schema @param {boolean} isNeeded @param {any} input */
function field(name, schema, isNeeded, input) {
	const words = visible(schema.title ?? name) + (isNeeded ? '' : ' (optional)');
	const about = schema.description ? h('span', { class: 'muted' }, h('bdi', {}, visible(schema.description))) : '';
	const attributes = { class: 'elicitation-field', 'data-field': name };
	if (schema.type === 'array') {
		return h('fieldset', attributes, h('legend', {}, h('bdi', {}, words)), about, input);
	}
	return schema.type === 'boolean'
		? h('div', attributes, h('label', {}, input, h('bdi', {}, words)), about)
		: h('label', attributes, h('span', {}, h('bdi', {}, words)), about, input);
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
			h('label', {}, h('input', { type: 'checkbox', name: id, value, checked: Array.isArray(initial) && initial.includes(value) }), h('bdi', {}, visible(words)))));
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
		return h('input', { type, name: id, dir: 'auto', required: isNeeded, minlength: schema.minLength, maxlength: schema.maxLength, value: typeof initial === 'string' ? initial : null });
	}
	return h('input', { type: 'number', name: id, required: isNeeded, min: schema.minimum, max: schema.maximum, step: schema.type === 'integer' ? 1 : 'any', value: typeof initial === 'number' ? initial : null });
}

/** A value; undefined to omit it. @param {any} schema @param {any} input */
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
