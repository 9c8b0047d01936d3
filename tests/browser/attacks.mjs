// What a hostile page can try against an address: every way in which a browser sends a request for a page. Runs in the page.

/**
 * Tries everything on the server at `base` and gives {name of the attack: what the page could see of it}. A page must
 * see the same of our server as of a port at which nobody listens.
 */
export async function attack({ base, paths, sockets, posts }) {
	const WAIT_MS = 20_000;
	performance.setResourceTimingBufferSize(5000);
	const seen = {};
	const within = (promise) => Promise.race([promise, new Promise((done) => setTimeout(done, WAIT_MS, 'nothing'))]);
	const note = async (name, promise) => {
		seen[name] = await within(promise.catch((error) => error.name));
	};
	const outcome = (target, events) =>
		new Promise((done) => events.forEach((name) => target.addEventListener(name, () => done(name))));

	/** An element that fetches `url`; whether it says that it worked, and how large it is. */
	const element = (tag, attribute, path, more = {}) => {
		const made = Object.assign(document.createElement(tag), more);
		const ended = outcome(made, ['load', 'error', 'loadeddata']);
		made[attribute] = base + path;
		document.body.append(made);
		return ended.then((what) => `${what} ${made.naturalWidth ?? ''} ${made.sheet ? 'a sheet' : ''}`);
	};
	const frame = async (path) => {
		const made = document.createElement('iframe');
		const ended = outcome(made, ['load', 'error']);
		made.src = base + path;
		document.body.append(made);
		const what = await ended;
		let inside;
		try {
			inside = made.contentDocument?.body.innerText ?? 'closed';
		} catch (error) {
			inside = error.name;
		}
		return `${what}, ${made.contentWindow?.length} frames, ${inside}`;
	};
	const answer = async (path, options) => {
		const response = await fetch(base + path, options);
		return `${response.type} ${response.status} ${await response.text()}`;
	};
	/** A form in a frame of its own: the page's own address would change otherwise. */
	const form = async (path, enctype, fields) => {
		const name = `to-${Math.random()}`;
		const target = Object.assign(document.createElement('iframe'), { name });
		document.body.append(target);
		const made = Object.assign(document.createElement('form'), { method: 'post', action: base + path, enctype, target: name });
		for (const [key, value] of Object.entries(fields)) {
			made.append(Object.assign(document.createElement('input'), { name: key, value, type: 'hidden' }));
		}
		document.body.append(made);
		const ended = outcome(target, ['load']);
		made.submit();
		return ended;
	};
	const socket = async (path, protocols) => {
		const made = new WebSocket(base.replace('http', 'ws') + path, protocols);
		const messages = [];
		made.onmessage = ({ data }) => messages.push(data);
		const closed = new Promise((done) => {
			made.onclose = ({ code, reason }) => done(`closed ${code} ${reason}`);
		});
		const opened = outcome(made, ['open']).then(() => {
			made.send(JSON.stringify({ type: 'load_events', data: { after_seq: 0 } }));
			return closed.then((how) => `open, ${messages.length} messages, ${how}`);
		});
		return Promise.race([opened, closed]);
	};
	const events = async (path) => {
		const made = new EventSource(base + path, { withCredentials: true });
		const what = await outcome(made, ['open', 'message', 'error']);
		made.close();
		return what;
	};

	for (const path of paths) {
		const q = path.includes('?') ? '&' : '?';
		await Promise.all([
			note(`fetch, no-cors ${path}`, answer(`${path}${q}a=1`, { mode: 'no-cors', credentials: 'include' })),
			note(`fetch, from the cache ${path}`, answer(path, { mode: 'no-cors', credentials: 'include', cache: 'force-cache' })),
			note(`fetch, cors ${path}`, answer(`${path}${q}a=2`, { credentials: 'include' })),
			note(`fetch, with a header ${path}`, answer(`${path}${q}a=3`, { credentials: 'include', headers: { 'holdfast-login': 'x' } })),
			note(`image ${path}`, element('img', 'src', `${path}${q}a=4`)),
			note(`image, cors ${path}`, element('img', 'src', `${path}${q}a=5`, { crossOrigin: 'use-credentials' })),
			note(`script ${path}`, element('script', 'src', `${path}${q}a=6`)),
			note(`module ${path}`, element('script', 'src', `${path}${q}a=7`, { type: 'module' })),
			note(`import ${path}`, import(`${base}${path}${q}a=8`).then(() => 'imported')),
			note(`style ${path}`, element('link', 'href', `${path}${q}a=9`, { rel: 'stylesheet' })),
			note(`prefetch ${path}`, element('link', 'href', `${path}${q}a=10`, { rel: 'prefetch' })),
			note(`preload ${path}`, element('link', 'href', `${path}${q}a=11`, { rel: 'preload', as: 'fetch' })),
			note(`video ${path}`, element('video', 'src', `${path}${q}a=12`)),
			note(`object ${path}`, element('object', 'data', `${path}${q}a=13`)),
			note(`embed ${path}`, element('embed', 'src', `${path}${q}a=14`)),
			note(`frame ${path}`, frame(`${path}${q}a=15`)),
			note(`font ${path}`, new FontFace('x', `url(${base}${path}${q}a=16)`).load().then(() => 'loaded')),
			note(`event source ${path}`, events(`${path}${q}a=17`)),
		]);
		document.body.replaceChildren();
	}
	for (const path of sockets) {
		await note(`socket ${path}`, socket(path));
		await note(`socket, holdfast.v1 ${path}`, socket(path, ['holdfast.v1']));
	}
	for (const { path, body } of posts) {
		const text = JSON.stringify(body);
		const options = { method: 'POST', body: text, credentials: 'include' };
		// {"a": "=…"} is JSON with a form's text/plain, too.
		const [half, rest] = [`${text.slice(0, -1)},"a":"`, '"}'];
		await note(`post, no-cors ${path}`, answer(path, { ...options, mode: 'no-cors' }));
		await note(`post, plain ${path}`, answer(path, options));
		await note(`post, json ${path}`, answer(path, { ...options, headers: { 'content-type': 'application/json' } }));
		await note(`post, kept alive ${path}`, answer(path, { ...options, mode: 'no-cors', keepalive: true }));
		await note(`put ${path}`, answer(path, { ...options, method: 'PUT' }));
		await note(`delete ${path}`, answer(path, { method: 'DELETE', credentials: 'include' }));
		await note(`form, plain ${path}`, form(path, 'text/plain', { [half]: rest }));
		await note(`form ${path}`, form(path, 'application/x-www-form-urlencoded', { token: 'x' }));
		await note(`form, parts ${path}`, form(path, 'multipart/form-data', { token: 'x' }));
		await note(`beacon ${path}`, (async () => String(navigator.sendBeacon(base + path, text)))());
		document.body.replaceChildren();
	}
	const entries = performance.getEntriesByType('resource').filter(({ name: url }) => url.startsWith(base));
	seen['what the browser has measured'] = entries
		.map(({ name: url, initiatorType: by, responseStatus: status, transferSize, encodedBodySize, nextHopProtocol: protocol }) =>
			`${url} ${by} ${status} ${transferSize} ${encodedBodySize} ${protocol}`)
		.sort();
	return seen;
}
