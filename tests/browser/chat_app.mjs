// The application that 51 bundles: a chat in React with useChat(), the way docs/ai-sdk.md has it.

import { StrictMode, createElement as h, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { useDurableChat } from './chat.js';
import { cancel } from './cancel.js';

const { session, token } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

function Part({ part, answer }) {
	if (part.type !== 'dynamic-tool') {
		return h('span', { 'data-part': part.type }, part.text);
	}
	const asked = part.state === 'approval-requested';
	const say = (approved) => () => answer({ id: part.approval.id, approved });
	return h('div', { 'data-tool': part.toolCallId, 'data-state': part.state }, part.title,
		asked && h('button', { id: 'allow', onClick: say(true) }, 'Allow'), asked && h('button', { id: 'deny', onClick: say(false) }, 'Deny'));
}

function Chat({ session }) {
	const { messages, status, error, sendMessage, stop, addToolApprovalResponse } = useDurableChat(session, token);
	const [text, setText] = useState('');
	const submit = (event) => {
		event.preventDefault();
		sendMessage({ text });
		setText('');
	};
	return h('main', { 'data-status': status, 'data-error': error?.message, 'data-session': session },
		messages.map(({ id, role, parts }) => h('article', { key: id, 'data-role': role, id }, parts.map((part, i) => h(Part, { key: i, part, answer: addToolApprovalResponse })))),
		h('form', { onSubmit: submit }, h('input', { value: text, onChange: (event) => setText(event.target.value) })),
		h('button', { id: 'stop', onClick: stop }, 'Stop'), h('button', { id: 'cancel', onClick: () => cancel(session, token, messages) }, 'Cancel'));
}

/** The chat of a session, another one's in the same component, or none. */
function App() {
	const [shown, setShown] = useState(session);
	return h('div', null, shown && h(Chat, { session: shown }),
		[['leave', null], ['other', 'other'], ['back', session]].map(([id, next]) => h('button', { key: id, id, onClick: () => setShown(next) }, id)));
}

createRoot(document.querySelector('#app')).render(h(StrictMode, null, h(App)));
