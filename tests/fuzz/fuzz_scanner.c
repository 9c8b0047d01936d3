/*
 * The block scanner: what it finds depends on the text alone and is what cmark-gfm finds, wherever
 * the text is cut and whenever its state is saved and loaded; and a spoilt state is refused, or
 * does no harm.
 */
#include "block_oracle.h"
#include "fuzz.h"

#include "holdfast/block_scanner.h"

#include <errno.h>

#define TEXT_MAX    4096
#define REPEAT_SIZE (256 * 1024)
/* Deeper nesting is read as text by the scanner and not by cmark-gfm. */
#define ORACLE_MARKS_MAX 90

/* All that can be asked of the scanner, after each byte of the text. */
struct view {
	size_t start; /* of the open block */
	size_t decided;
	enum block_kind kind;
	bool closable;
	bool at_line_start;
};

struct run {
	struct view after[TEXT_MAX + 2];
	struct block_starts starts;
};

static struct view look(const struct block_scanner *s, size_t start)
{
	return (struct view){
		.start = start,
		.decided = block_scanner_decided(s),
		.kind = block_scanner_kind(s),
		.closable = block_scanner_closable(s),
		.at_line_start = block_scanner_at_line_start(s),
	};
}

static void check_view(const struct view *a, const struct view *b)
{
	fuzz_check(a->start == b->start, "the same block is open");
	fuzz_check(a->decided == b->decided, "the same bytes of it are decided");
	fuzz_check(a->kind == b->kind, "it is of the same kind");
	fuzz_check(a->closable == b->closable, "it may be closed at the same places");
	fuzz_check(a->at_line_start == b->at_line_start, "lines begin at the same places");
}

static void save(const struct block_scanner *s, struct buffer *out)
{
	buffer_clear(out);
	block_scanner_save(s, out);
}

/* Goes on in another scanner, with the state of this one. */
static struct block_scanner *reload(struct block_scanner *s)
{
	struct buffer state = {0};
	struct buffer again = {0};
	struct block_scanner *next = block_scanner_create();
	save(s, &state);
	fuzz_check(block_scanner_load(next, state.data, state.len) == 0, "a state can be loaded");
	save(next, &again);
	fuzz_check(state.len == again.len && memcmp(state.data, again.data, state.len) == 0,
		"a loaded state is saved as the same bytes");
	buffer_finish(&state);
	buffer_finish(&again);
	block_scanner_destroy(s);
	return next;
}

/* The whole text byte by byte. What was called decided must stay in its block. */
static void run_bytewise(const char *text, size_t len, struct run *ret)
{
	struct block_scanner *s = block_scanner_create();
	size_t start = 0;
	size_t decided = 0;
	ret->starts.count = 0;
	block_starts_add(&ret->starts, 0, false);
	for (size_t at = 0; at < len; at++) {
		size_t end;
		fuzz_check(block_scanner_feed(s, text + at, 1, &end) == 1, "a byte is read");
		if (end != BLOCK_SCANNER_NO_END) {
			fuzz_check(end > 0 && end >= decided, "decided bytes stay in the block");
			fuzz_check(end <= at + 1 - start, "a block ends within the text");
			start += end;
			decided = 0;
			block_starts_add(&ret->starts, start, false);
		}
		struct view now = look(s, start);
		fuzz_check(block_scanner_length(s) == at + 1 - start, "all bytes are counted");
		fuzz_check(now.decided >= decided, "decided() never falls");
		fuzz_check(now.decided <= at + 1 - start, "decided() is within the block");
		fuzz_check(!now.closable || now.kind != BLOCK_NONE, "nothing is not closable");
		decided = now.decided;
		ret->after[at + 1] = now;
	}
	block_scanner_destroy(s);
}

/*
 * In pieces as the plan says; with `reloads`, each in another scanner. Without a plan, whole, or
 * byte by byte.
 */
static void check_pieces(
	const char *text, size_t len, struct fuzz_input *plan, bool reloads, const struct run *want)
{
	struct block_scanner *s = block_scanner_create();
	size_t start = 0;
	size_t found = 1;
	for (size_t at = 0; at < len;) {
		size_t end;
		size_t rest = reloads ? 1 : len - at;
		size_t piece = plan->plan_len ? fuzz_take(plan) % 64 + 1 : rest;
		piece = piece < len - at ? piece : len - at;
		size_t used = block_scanner_feed(s, text + at, piece, &end);
		fuzz_check(used > 0 && used <= piece, "a piece is read");
		fuzz_check(used == piece || end != BLOCK_SCANNER_NO_END, "it stops at ends only");
		at += used;
		if (end != BLOCK_SCANNER_NO_END) {
			start += end;
			fuzz_check(found < want->starts.count && want->starts.at[found] == start,
				"the cut makes no difference");
			found++;
		}
		struct view now = look(s, start);
		check_view(&now, &want->after[at]);
		s = reloads ? reload(s) : s;
	}
	fuzz_check(found == want->starts.count, "as many blocks are found");
	block_scanner_destroy(s);
}

/* --- cmark-gfm --- */

static bool is_too_deep(const char *text, size_t len)
{
	size_t marks = 0;
	for (size_t i = 0; i < len; i++) {
		bool ends = text[i] == '\n' || text[i] == '\r';
		marks = ends ? 0 : marks + (text[i] && strchr(">-+*.)", text[i]));
		if (marks > ORACLE_MARKS_MAX) {
			return true;
		}
	}
	return false;
}

static void check_oracle(const char *text, size_t len, const struct block_starts *got)
{
	static struct block_starts want;
	if (is_too_deep(text, len)) {
		return;
	}
	block_oracle_find(text, len, &want);
	fuzz_check(block_oracle_accepts(text, len, got, &want), "the blocks are cmark-gfm's");
	/* A definition may stand in another block. */
	if (!memmem(text, len, "]:", 2)) {
		fuzz_check(block_oracle_renders_alike(text, len, got),
			"the blocks render as the whole does");
	}
}

/* --- cuts by a timer, and spoilt states --- */

/* The rest of the text, in a scanner of any state: positions must stay within it. */
static void feed_rest(struct block_scanner *s, const char *text, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t end;
		size_t before = block_scanner_length(s);
		size_t used = block_scanner_feed(s, text + at, len - at, &end);
		fuzz_check(used > 0 && used <= len - at, "a piece is read");
		size_t now = block_scanner_length(s);
		if (end == BLOCK_SCANNER_NO_END) {
			fuzz_check(now == before + used, "all bytes are counted");
		} else {
			fuzz_check(end <= before + used, "a block ends within the text");
			fuzz_check(now == before + used - end, "what is behind the end is counted");
		}
		fuzz_check(block_scanner_decided(s) <= now, "decided() is within the block");
		fuzz_check(block_scanner_kind(s) <= BLOCK_HTML, "the kind is one");
		block_scanner_closable(s);
		at += used;
	}
	size_t context_len;
	block_scanner_context(s, &context_len);
	fuzz_check(context_len <= 16384, "a context is bounded");
}

static bool is_context_of(const struct block_scanner *s, const struct buffer *want)
{
	size_t len;
	const char *context = block_scanner_context(s, &len);
	return len == want->len && (!len || memcmp(context, want->data, len) == 0);
}

/* What the text behind a cut needs in front of it, when it came in one piece. */
static void find_context(const char *text, size_t len, size_t at, struct buffer *out)
{
	struct block_scanner *s = block_scanner_create();
	feed_rest(s, text, at);
	block_scanner_cut(s);
	size_t end;
	block_scanner_feed(s, text + at, len - at, &end);
	size_t context_len;
	const char *context = block_scanner_context(s, &context_len);
	buffer_append(out, context, context_len);
	block_scanner_destroy(s);
}

static void check_cut(const char *text, size_t len, size_t at, bool reloads)
{
	struct block_scanner *s = block_scanner_create();
	feed_rest(s, text, at);
	enum block_kind kind = block_scanner_kind(s);
	block_scanner_cut(s);
	fuzz_check(block_scanner_length(s) == 0 && block_scanner_decided(s) == 0,
		"a cut begins to count anew");
	fuzz_check(block_scanner_kind(s) == kind, "a cut block is of the same kind");
	s = reloads ? reload(s) : s;
	/* Byte by byte, to the end of the block that was cut. */
	struct buffer context = {0};
	find_context(text, len, at, &context);
	size_t end = BLOCK_SCANNER_NO_END;
	for (size_t i = at; i < len && end == BLOCK_SCANNER_NO_END; i++) {
		block_scanner_feed(s, text + i, 1, &end);
	}
	fuzz_check(is_context_of(s, &context), "the context does not depend on the chunks");
	buffer_finish(&context);
	block_scanner_destroy(s);
}

/* A good state with some bytes changed, and the text itself as a state. */
static void check_spoilt(const char *text, size_t len, size_t at, struct fuzz_input *plan)
{
	struct buffer state = {0};
	struct block_scanner *s = block_scanner_create();
	feed_rest(s, text, at);
	save(s, &state);
	do {
		size_t where = fuzz_take_up_to(plan, state.len - 1);
		state.data[where] = (char)(state.data[where] ^ fuzz_take(plan));
	} while (plan->plan_len);
	if (block_scanner_load(s, state.data, state.len) == 0) {
		s = reload(s);
	}
	feed_rest(s, text + at, len - at);
	int r = block_scanner_load(s, text, len);
	fuzz_check(r == 0 || r == -EINVAL, "a state is loaded or refused");
	fuzz_check(r == 0 || block_scanner_length(s) == 0, "a refused state leaves nothing");
	feed_rest(s, text, len);
	buffer_finish(&state);
	block_scanner_destroy(s);
}

/* --- */

/* The last line gets an end: one that could still go on is undecided, and rightly so. */
static size_t add_line_end(const char *text, size_t len, char *ret)
{
	memcpy(ret, text, len);
	if (!len || (text[len - 1] != '\n' && text[len - 1] != '\r')) {
		ret[len++] = '\n';
	}
	return len;
}

/* What is no UTF-8 becomes question marks: cmark-gfm drops a byte behind some of it. */
static void make_valid(char *text, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t character = fuzz_utf8_length(text + at, len - at);
		text[at] = character ? text[at] : '?';
		at += character ? character : 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run run;
	struct fuzz_input in = fuzz_split(data, size < TEXT_MAX ? size : TEXT_MAX);
	struct buffer much;
	if (fuzz_repeat(&in, REPEAT_SIZE, &much)) {
		check_cut(much.data, much.len, much.len / 2, false);
		buffer_finish(&much);
		return 0;
	}
	char *text = xmalloc(in.len + 1);
	size_t len = add_line_end(in.text, in.len, text);
	make_valid(text, len);
	run_bytewise(text, len, &run);
	check_oracle(text, len, &run.starts);
	memcpy(text, in.text, in.len);
	run_bytewise(text, len, &run);
	size_t at = fuzz_take_up_to(&in, len);
	check_cut(text, len, at, false);
	check_cut(text, len, at, true);
	struct fuzz_input plan = in;
	check_pieces(text, len, &plan, false, &run);
	plan = in;
	check_pieces(text, len, &plan, true, &run);
	check_spoilt(text, len, at, &in);
	free(text);
	return 0;
}
