// What axe-core says about a page.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core'), 'utf8');

/** What axe-core has to say that is serious, with the elements it says it of. */
export async function assertNoFault(page, where) {
	// As a debugger does it: the page's own policy would not let it in, and must not.
	const session = await page.context().newCDPSession(page);
	await session.send('Runtime.evaluate', { expression: AXE });
	await session.detach();
	const faults = await page.evaluate(async () => {
		const { violations, passes } = await window.axe.run(document, { resultTypes: ['violations'] });
		return {
			checked: passes.length,
			serious: violations
				.filter(({ impact }) => impact === 'serious' || impact === 'critical')
				.map(
					({ id, nodes }) =>
						`${id}: ${nodes.map(({ html, any }) => `${html.slice(0, 160)} ${any[0]?.message ?? ''}`).join('\n  ')}`,
				),
		};
	});
	assert.deepEqual(faults.serious, [], where);
	assert.ok(faults.checked > 10, `${faults.checked} rules were checked`);
}
