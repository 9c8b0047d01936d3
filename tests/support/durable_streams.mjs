// Following with npm @durable-streams/client.

/**
 * Opens with `open(offset)` and gives the response to `subscribe(response, note)`, which calls note(offset) for each batch that it has taken. With the fetch of
 * later Nodes the client connects again when a stream is cut off. With that of Node 18 it ends with an error, and a program reads on at its offset: so here.
 */
export async function followStream({ open, subscribe, signal, offset = '-1', onError = () => {} }) {
	let at = offset;
	const read = async () => {
		const response = await open(at);
		response.closed.catch((error) => {
			onError(error);
			return error.message === 'terminated' && !signal.aborted ? read() : undefined;
		});
		subscribe(response, (next) => {
			at = next;
		});
	};
	await read();
}
