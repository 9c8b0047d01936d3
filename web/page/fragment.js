// Takes a token out of the address before it gets into the history, and before anything else can fail. A plain script:
// modules come too late. `#token=TOKEN` may be followed by `&session=ID`: the session to show. `#share=TOKEN` is a link
// that somebody was sent: its login leaves the browser's own alone.
(() => {
	const take = () => {
		if (!/^#(token|share)=/.test(location.hash)) {
			return;
		}
		const given = new URLSearchParams(location.hash.slice(1));
		const session = given.get('session');
		const rest = session ? `#/s/${encodeURIComponent(session)}` : '';
		history.replaceState(null, '', location.pathname + location.search + rest);
		window.holdfastToken = given.get('token') ?? given.get('share');
		window.holdfastIsShared = given.has('share');
	};
	take();
	window.addEventListener('hashchange', take); // before the page's own listeners
})();
