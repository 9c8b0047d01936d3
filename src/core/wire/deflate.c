#include "holdfast/deflate.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

/* Favours speed: most events are short and new text. */
#define LEVEL 1
/* The level for deflater_create_small(). */
#define LEVEL_SMALL 9
/* A raw stream without a zlib header, or one with a gzip header; 32 KiB windows. */
#define RAW_BITS  (-15)
#define GZIP_BITS (15 + 16)
/* The end of a sync flush, which messages omit (RFC 7692, section 7.2.1). */
static const unsigned char tail[] = {0x00, 0x00, 0xff, 0xff};

struct deflater {
	z_stream raw;
	z_stream gzip;
	z_stream inflate;
	bool has_raw;
	bool has_gzip;
	bool has_inflate;
	int level;
};

static struct deflater *create(int level)
{
	struct deflater *deflater = xcalloc(1, sizeof(*deflater));
	deflater->level = level;
	return deflater;
}

struct deflater *deflater_create(void)
{
	return create(LEVEL);
}

struct deflater *deflater_create_small(void)
{
	return create(LEVEL_SMALL);
}

void deflater_destroy(struct deflater *deflater)
{
	if (!deflater) {
		return;
	}
	if (deflater->has_raw) {
		deflateEnd(&deflater->raw);
	}
	if (deflater->has_gzip) {
		deflateEnd(&deflater->gzip);
	}
	if (deflater->has_inflate) {
		inflateEnd(&deflater->inflate);
	}
	free(deflater);
}

/* --- handshake --- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/**
 * Cuts off the text up to `end` (outside quotes), trimmed, and moves *at behind it. Returns its
 * length.
 */
static size_t cut(const char **at, size_t *len, char end, const char **ret)
{
	bool is_quoted = false;
	size_t n = 0;
	for (; n < *len && (is_quoted || (*at)[n] != end); n++) {
		if (is_quoted && (*at)[n] == '\\' && n + 1 < *len) {
			n++;
		} else if ((*at)[n] == '"') {
			is_quoted = !is_quoted;
		}
	}
	const char *begin = *at;
	size_t used = n < *len ? n + 1 : n;
	*at += used;
	*len -= used;
	while (n && is_blank(begin[0])) {
		begin++;
		n--;
	}
	while (n && is_blank(begin[n - 1])) {
		n--;
	}
	*ret = begin;
	return n;
}

static bool is_word(const char *text, size_t len, const char *word)
{
	return len == strlen(word) && strncasecmp(text, word, len) == 0;
}

/** Parses a window size, 8 to 15, optionally quoted. Returns 0 if it is anything else. */
static unsigned window_bits(const char *text, size_t len)
{
	if (len > 2 && text[0] == '"' && text[len - 1] == '"') {
		text++;
		len -= 2;
	}
	if (len == 1 && (text[0] == '8' || text[0] == '9')) {
		return (unsigned)(text[0] - '0');
	}
	return len == 2 && text[0] == '1' && text[1] >= '0' && text[1] <= '5'
		       ? 10 + (unsigned)(text[1] - '0')
		       : 0;
}

/* The parameters of an offer, and a bit for each. */
enum { SERVER_ALONE, CLIENT_ALONE, CLIENT_BITS, SERVER_BITS, PARAMETERS };

/**
 * Checks a parameter (RFC 7692, section 7.1): known, not repeated, and with a valid value that we
 * accept.
 */
static bool takes_parameter(const char *text, size_t len, unsigned *seen)
{
	static const char *const names[] = {[SERVER_ALONE] = "server_no_context_takeover",
		[CLIENT_ALONE] = "client_no_context_takeover",
		[CLIENT_BITS] = "client_max_window_bits",
		[SERVER_BITS] = "server_max_window_bits"};
	const char *name;
	size_t name_len = cut(&text, &len, '=', &name);
	bool has_value = text[-1] == '=';
	const char *value;
	size_t value_len = cut(&text, &len, '\0', &value);
	unsigned which = 0;
	while (which < PARAMETERS && !is_word(name, name_len, names[which])) {
		which++;
	}
	if (which == PARAMETERS || *seen & 1U << which) {
		return false;
	}
	*seen |= 1U << which;
	if (which == SERVER_ALONE || which == CLIENT_ALONE) {
		return !has_value;
	}
	unsigned bits = window_bits(value, value_len);
	return which == CLIENT_BITS ? !has_value || bits : bits == 15;
}

static bool takes_offer(const char *text, size_t len, unsigned *ret_seen)
{
	const char *part;
	*ret_seen = 0;
	size_t n = cut(&text, &len, ';', &part);
	bool is_good = is_word(part, n, "permessage-deflate");
	bool has_more = text[-1] == ';';
	while (is_good && (len || has_more)) {
		n = cut(&text, &len, ';', &part);
		is_good = n && takes_parameter(part, n, ret_seen);
		has_more = is_good && text[-1] == ';';
	}
	return is_good;
}

const char *deflate_answer(const char *offers, size_t len)
{
	static const char answer[] =
		"permessage-deflate; server_no_context_takeover; client_no_context_takeover";
	static const char answer_bits[] =
		"permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=15";
	while (len) {
		const char *offer;
		unsigned seen;
		size_t n = cut(&offers, &len, ',', &offer);
		if (n && takes_offer(offer, n, &seen)) {
			return seen & 1U << SERVER_BITS ? answer_bits : answer;
		}
	}
	return NULL;
}

/* --- compression --- */

/** Prepares a stream, reusing its memory. */
static void begin(const struct deflater *deflater, z_stream *z, bool *has, int bits)
{
	int r = *has ? deflateReset(z)
		     : deflateInit2(z, deflater->level, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY);
	*has = true;
	if (r != Z_OK) {
		abort(); /* out of memory: see buffer.h */
	}
}

/** Compresses all of the text and appends the output. */
static void pack(z_stream *z, const char *text, size_t len, int flush, struct buffer *out)
{
	z->next_in = (unsigned char *)text; /* zlib does not modify it */
	z->avail_in = (unsigned)len;
	do {
		buffer_reserve(out, len / 4 + 1024);
		size_t room = out->cap - out->len;
		z->next_out = (unsigned char *)out->data + out->len;
		z->avail_out = (unsigned)room;
		deflate(z, flush);
		out->len += room - z->avail_out;
	} while (z->avail_out == 0);
}

void deflate_message(struct deflater *deflater, const char *text, size_t len, struct buffer *out)
{
	begin(deflater, &deflater->raw, &deflater->has_raw, RAW_BITS);
	pack(&deflater->raw, text, len, Z_SYNC_FLUSH, out);
	assert(memcmp(out->data + out->len - sizeof(tail), tail, sizeof(tail)) == 0);
	out->len -= sizeof(tail);
}

void deflate_gzip(struct deflater *deflater, const char *text, size_t len, struct buffer *out)
{
	begin(deflater, &deflater->gzip, &deflater->has_gzip, GZIP_BITS);
	pack(&deflater->gzip, text, len, Z_FINISH, out);
}

/* --- gzip in pieces --- */

struct gzip_piece gzip_measure(const char *text, size_t len)
{
	return (struct gzip_piece){
		.crc = (uint32_t)crc32(0, (const unsigned char *)text, (unsigned)len),
		.len = (uint32_t)len,
		.step = crc32_combine_gen((z_off_t)len),
	};
}

void deflate_piece(struct deflater *deflater, const char *text, size_t len, struct buffer *out)
{
	deflate_message(deflater, text, len, out);
	buffer_append(out, tail, sizeof(tail));
}

void gzip_end_add(struct gzip_end *end, const struct gzip_piece *piece)
{
	end->crc = (uint32_t)crc32_combine_op(end->crc, piece->crc, (uLong)piece->step);
	end->len += piece->len;
}

/** Appends the final block and the trailer (RFC 1952, section 2.3.1). */
void gzip_end_append(const struct gzip_end *end, struct buffer *out)
{
	static const unsigned char last_block[] = {0x03, 0x00};
	buffer_append(out, last_block, sizeof(last_block));
	for (int i = 0; i < 8; i++) {
		uint32_t word = i < 4 ? end->crc : end->len;
		buffer_append_char(out, (char)(word >> (8 * (i % 4))));
	}
}

/* --- decompression --- */

/** Decompresses all of these bytes, until `out` has more than `end` bytes. */
static int unpack(
	z_stream *z, const unsigned char *bytes, size_t len, size_t end, struct buffer *out)
{
	z->next_in = (unsigned char *)bytes;
	z->avail_in = (unsigned)len;
	for (;;) {
		size_t room = end - out->len;
		size_t wanted = (size_t)z->avail_in * 4 + 256;
		room = room < wanted ? room : wanted;
		buffer_reserve(out, room + 1); /* one more, to detect excess */
		z->next_out = (unsigned char *)out->data + out->len;
		z->avail_out = (unsigned)room + 1;
		int r = inflate(z, Z_SYNC_FLUSH);
		out->len += room + 1 - z->avail_out;
		if (out->len > end) {
			return -EMSGSIZE;
		}
		if (r == Z_STREAM_END) {
			inflateReset(z); /* blocks can follow a final one */
		} else if (r != Z_OK && r != Z_BUF_ERROR) {
			return -EPROTO;
		}
		if (!z->avail_in && (z->avail_out || r == Z_STREAM_END)) {
			return 0;
		}
	}
}

int inflate_message(
	struct deflater *deflater, const char *bytes, size_t len, size_t max, struct buffer *out)
{
	z_stream *z = &deflater->inflate;
	int ready = deflater->has_inflate ? inflateReset(z) : inflateInit2(z, RAW_BITS);
	if (ready != Z_OK) {
		abort();
	}
	deflater->has_inflate = true;
	size_t end = out->len + max;
	int r = unpack(z, (const unsigned char *)bytes, len, end, out);
	return r < 0 ? r : unpack(z, tail, sizeof(tail), end, out);
}
