// Light or dark before the page is painted, and the button that changes it. A plain script: modules come too late.
(() => {
	const key = 'holdfast-theme';
	const root = document.documentElement;
	const words = {
		auto: 'Colours: system',
		light: 'Colours: light',
		dark: 'Colours: dark',
	};
	const next = { auto: 'light', light: 'dark', dark: 'auto' };

	const load = () => {
		try {
			const theme = localStorage.getItem(key);
			return theme in next ? theme : 'auto';
		} catch {
			return 'auto'; // some browsers have storage disabled
		}
	};

	const show = (theme) => {
		root.dataset.theme = theme;
		for (const button of document.querySelectorAll('[data-action="theme"]')) {
			button.querySelector('span').textContent = words[theme];
		}
	};

	const change = () => {
		const theme = next[root.dataset.theme];
		show(theme);
		try {
			localStorage.setItem(key, theme);
		} catch {
			// then the choice lasts until the page is closed
		}
	};

	show(load());
	document.addEventListener('DOMContentLoaded', () => show(root.dataset.theme));
	document.addEventListener(
		'click',
		(event) => event.target.closest('[data-action="theme"]') && change(),
	);
})();
