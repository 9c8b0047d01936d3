/** What the session has used: words, and how much of the agent's window is full. */

const FULL = 0.8; // from here on the meter warns

/** @param {number} n */
const short = (n) =>
	Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 }).format(n);

/** @param {any} usage */
export function usageText(usage) {
	const parts = [];
	if (Number.isFinite(usage?.used)) {
		parts.push(
			Number.isFinite(usage.size)
				? `${short(usage.used)} of ${short(usage.size)} tokens`
				: `${short(usage.used)} tokens`,
		);
	} else if (Number.isFinite(usage?.input_tokens) || Number.isFinite(usage?.output_tokens)) {
		parts.push(
			`${short(usage.input_tokens ?? 0)} tokens in, ${short(usage.output_tokens ?? 0)} out`,
		);
	}
	if (Number.isFinite(usage?.cost?.amount)) {
		parts.push(`${usage.cost.amount.toFixed(2)} ${usage.cost.currency ?? ''}`.trim());
	}
	return parts.join(' · ');
}

/** @param {any} usage @returns {number | null} from 0 to 1; null if nobody has said how much there is */
export function usageShare(usage) {
	return Number.isFinite(usage?.used) && usage.size > 0
		? Math.min(1, Math.max(0, usage.used / usage.size))
		: null;
}

/** @param {{text: HTMLElement, meter: HTMLProgressElement}} places @param {any} usage */
export function showUsage({ text, meter }, usage) {
	const share = usageShare(usage);
	text.textContent = usageText(usage);
	meter.hidden = share === null;
	meter.value = share ?? 0;
	meter.classList.toggle('full', (share ?? 0) >= FULL);
}
