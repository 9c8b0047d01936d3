/** The session's usage: tokens, cost, and how full the agent's context window is. */
import { h, visible } from './dom.js';

const FULL = 0.8; // from here on the meter warns

/** @param {number} n */
const short = (n) =>
	Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 }).format(n);

/** @param {any} cost */
function costText(cost) {
	if (!Number.isFinite(cost?.amount)) {
		return '';
	}
	const digits = cost.amount > 0 && cost.amount < 0.1 ? 4 : 2;
	return visible(`${cost.amount.toFixed(digits)} ${cost.currency ?? ''}`.trim());
}

/** @param {any} usage */
function countsText({ input_tokens: input, output_tokens: output }) {
	return Number.isFinite(input) || Number.isFinite(output)
		? `${short(input ?? 0)} in, ${short(output ?? 0)} out`
		: '';
}

/** @param {any} usage */
function windowText({ used, size }) {
	if (!Number.isFinite(used)) {
		return '';
	}
	return Number.isFinite(size)
		? `${short(used)} of ${short(size)} tokens`
		: `${short(used)} tokens`;
}

/** One line. @param {any} usage */
export function usageText(usage) {
	const all = usage ?? {};
	const counts = windowText(all) ? countsText(all) : countsText(all).replace(' in,', ' tokens in,');
	const words = [windowText(all), counts, costText(all.cost)].filter(Boolean).join(' · ');
	return words && all.partial ? `at least ${words}` : words;
}

/** @param {any} usage @returns {number | null} from 0 to 1; null if the size is unknown */
export function usageShare(usage) {
	return Number.isFinite(usage?.used) && usage.size > 0
		? Math.min(1, Math.max(0, usage.used / usage.size))
		: null;
}

const NOT_COUNTED = ['used', 'size'];
const MODELS_MAX = 64; // the server counts no more by name

/**
 * Every counter of a total, whatever its name.
 * @param {any} total @returns {[string, string][]}
 */
function countersOf(total) {
	return Object.entries(Object(total))
		.filter(([name, value]) => Number.isFinite(value) && !NOT_COUNTED.includes(name))
		.map(([name, value]) => [
			visible(name.replaceAll('_', ' ')),
			value.toLocaleString('en', { maximumFractionDigits: 6 }),
		]);
}

/** @param {string} title @param {[string, string][]} rows */
function section(title, rows) {
	const lines = rows.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value)));
	return rows.length === 0
		? null
		: h('section', {}, h('h3', {}, visible(title)), h('dl', {}, ...lines));
}

/**
 * In full: the window, the counters, the cost, and each model.
 * @param {any} usage @returns {HTMLElement[]}
 */
function detailOf(usage) {
	const costs = [usage.cost, ...(Array.isArray(usage.more_costs) ? usage.more_costs : [])];
	/** @type {[string, string][]} */
	const all = [
		['context window', windowText(usage)],
		...countersOf(usage),
		.../** @type {[string, string][]} */ (costs.map((cost) => ['cost', costText(cost)])),
	];
	const session = all.filter(([, value]) => value !== '');
	const models = Object.entries(Object(usage.models)).slice(0, MODELS_MAX);
	return [
		section(usage.partial ? 'This session, at least' : 'This session', session),
		...models.map(([name, total]) => section(name, countersOf(total))),
	].filter((part) => part !== null);
}

/**
 * @param {{text: HTMLElement, meter: HTMLProgressElement, detail: HTMLElement}} places
 * @param {any} usage
 */
export function showUsage({ text, meter, detail }, usage) {
	const said = JSON.stringify(usage);
	if (text.dataset.usage === said) {
		return;
	}
	text.dataset.usage = said;
	const share = usageShare(usage);
	const words = usageText(usage);
	text.textContent = words;
	text.hidden = words === '';
	meter.hidden = share === null;
	meter.value = share ?? 0;
	meter.classList.toggle('full', (share ?? 0) >= FULL);
	detail.replaceChildren(...detailOf(usage ?? {}));
}
