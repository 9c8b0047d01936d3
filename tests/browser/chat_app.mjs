// The application that 51 bundles: a chat in React with useChat(), the way docs/ai-sdk.md has it.

import { createElement as h, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { useDurableChat } from './chat.js';

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

function App() {
	const { messages, status, error, sendMessage, stop, addToolApprovalResponse } = useDurableChat(session, token);
	const [text, setText] = useState('');
	const submit = (event) => {
		event.preventDefault();
		sendMessage({ text });
		setText('');
	};
	return h('main', { 'data-status': status, 'data-error': error?.message },
		messages.map(({ id, role, parts }) => h('article', { key: id, 'data-role': role, id }, parts.map((part, i) => h(Part, { key: i, part, answer: addToolApprovalResponse })))),
		h('form', { onSubmit: submit }, h('input', { value: text, onChange: (event) => setText(event.target.value) })),
		h('button', { id: 'stop', onClick: stop }, 'Stop'));
}

createRoot(document.querySelector('#app')).render(h(App));
