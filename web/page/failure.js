import { chevron, output } from './card-parts.js';
import { h } from './dom.js';

/** What a failed agent has written last, behind "Details". @param {string} stderr */
export function failure(stderr) {
	return h(
		'details',
		{ class: 'failure', 'data-testid': 'failure' },
		h('summary', {}, 'Details', chevron()),
		output(stderr),
	);
}
