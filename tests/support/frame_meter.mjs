// Finds where WebSocket frames begin and end in a stream of bytes, behind the HTTP head of the upgrade.

const HEAD_END = '\r\n\r\n';

/** The length of a frame with its header; null if not enough of the header is there to say. */
function frameLength(bytes) {
	if (bytes.length < 2) {
		return null;
	}
	const short = bytes[1] & 0x7f;
	const sizeBytes = short < 126 ? 0 : short === 126 ? 2 : 8;
	if (bytes.length < 2 + sizeBytes) {
		return null;
	}
	const payload = { 0: () => short, 2: () => bytes.readUInt16BE(2), 8: () => Number(bytes.readBigUInt64BE(2)) };
	return 2 + sizeBytes + (bytes[1] & 0x80 ? 4 : 0) + payload[sizeBytes]();
}

export class FrameMeter {
	#rest = Buffer.alloc(0); // of the head, or of a frame's header
	#isHead = true;
	#offset = 0; // of the first byte of #rest in the stream
	/** Each frame so far, also one that has only begun: {start, length}, counted from the first byte. */
	frames = [];

	/** Takes the next bytes of the stream. */
	feed(bytes) {
		this.#rest = this.#rest.length > 0 ? Buffer.concat([this.#rest, bytes]) : bytes;
		if (this.#isHead) {
			const end = this.#rest.indexOf(HEAD_END);
			if (end < 0) {
				return;
			}
			this.#isHead = false;
			this.#skip(end + HEAD_END.length);
		}
		for (;;) {
			this.#skip(Math.min(this.#nextStart() - this.#offset, this.#rest.length));
			const length = this.#offset < this.#nextStart() ? null : frameLength(this.#rest);
			if (length === null) {
				return;
			}
			this.frames.push({ start: this.#offset, length });
		}
	}

	#nextStart() {
		const last = this.frames.at(-1);
		return last ? last.start + last.length : this.#offset;
	}

	#skip(count) {
		this.#offset += count;
		this.#rest = this.#rest.subarray(count);
	}
}
