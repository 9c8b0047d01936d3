/*
 * How fast the stream buffer is: by itself, without a server. Time is that of the CPU, so that
 * other programs disturb it little; what is left of them is evened out by rounds. See RESULTS.md.
 */
#include "stream_text.h"
#include "tool.h"

#include "holdfast/block_scanner.h"
#include "core/stream/inline_guard.h"
#include "holdfast/markdown_html.h"
#include "holdfast/stream_buffer.h"

#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm-extension_api.h>
#include <cmark-gfm.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KIB        ((size_t)1024)
#define MIB        (1024 * KIB)
#define TURN_SIZE  (16 * KIB)
#define CHUNK_SIZE (4 * KIB)
#define SEED       20261120
#define ROUNDS_MAX 101

/* The text of some turns, one behind the other. */
struct turns {
	struct buffer text;
	size_t *ends;
	size_t count;
};

/* What the events of a run are used for. */
struct sink {
	bool renders;
	struct buffer *keep; /* the markdown of the events one after the other, or NULL */
	struct buffer *lengths; /* of each of them, as size_t */
	bool watches_memory;
	size_t memory_most;
	size_t events;
	struct buffer markdown;
	struct buffer html;
};

static uint64_t cpu_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SECOND + (uint64_t)ts.tv_nsec;
}

static size_t memory_now(void)
{
	struct mallinfo2 info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

static void watch_memory(struct sink *sink)
{
	size_t now = sink->watches_memory ? memory_now() : 0;
	sink->memory_most = now > sink->memory_most ? now : sink->memory_most;
}

/* --- the events --- */

static char unescape(const char **at)
{
	static const char from[] = "nrt\"\\";
	static const char to[] = "\n\r\t\"\\";
	const char *found = strchr(from, **at);
	if (!found || !*found) {
		/* \u00XX */
		char digits[3] = {(*at)[3], (*at)[4], '\0'};
		*at += 5;
		return (char)strtoul(digits, NULL, 16);
	}
	(*at)++;
	return to[found - from];
}

/* Undoes buffer_append_json(); returns what follows the string. */
static const char *read_string(const char *at, struct buffer *out)
{
	for (;;) {
		size_t plain = strcspn(at, "\"\\");
		buffer_append(out, at, plain);
		at += plain + 1;
		if (at[-1] == '"') {
			return at;
		}
		buffer_append_char(out, unescape(&at));
	}
}

static void emit(void *owner, const struct event_view *view)
{
	static const char start[] = "{\"markdown\":\"";
	static const char context[] = "\"context\":\"";
	struct sink *sink = owner;
	sink->events++;
	watch_memory(sink);
	if (!sink->renders && !sink->keep) {
		return;
	}
	struct buffer before = {0};
	sink->markdown.len = 0;
	const char *rest = read_string(view->data + sizeof(start) - 1, &sink->markdown);
	size_t left = view->data_len - (size_t)(rest - view->data);
	const char *more = memmem(rest, left, context, sizeof(context) - 1);
	if (more) {
		read_string(more + sizeof(context) - 1, &before);
	}
	if (sink->keep) {
		buffer_append(sink->keep, sink->markdown.data, sink->markdown.len);
		buffer_append(sink->lengths, &sink->markdown.len, sizeof(size_t));
	}
	if (sink->renders) {
		sink->html.len = 0;
		markdown_to_html(&(struct markdown){.context = before.data,
					 .context_len = before.len,
					 .text = sink->markdown.data,
					 .len = sink->markdown.len},
			&sink->html);
	}
	buffer_finish(&before);
}

static void ignore_held(void *owner, uint64_t seq, const struct stream_input *input)
{
}

static const struct stream_buffer_ops ops = {.emit = emit, .held = ignore_held};

static void sink_finish(struct sink *sink)
{
	buffer_finish(&sink->markdown);
	buffer_finish(&sink->html);
}

/* --- what is measured --- */

/* The end of a chunk of about `size` bytes, between two characters. */
static size_t chunk_end(const struct buffer *text, size_t at, size_t end, size_t size)
{
	if (end - at <= size) {
		return end;
	}
	at += size;
	while (at < end && ((unsigned char)text->data[at] & 0xc0) == 0x80) {
		at++;
	}
	return at;
}

/* Returns the number of blocks. */
static size_t run_scanner(const struct turns *turns, size_t chunk)
{
	struct block_scanner *scanner = block_scanner_create();
	size_t blocks = 0;
	size_t at = 0;
	for (size_t turn = 0; turn < turns->count; turn++) {
		block_scanner_reset(scanner);
		while (at < turns->ends[turn]) {
			size_t end = chunk_end(&turns->text, at, turns->ends[turn], chunk);
			while (at < end) {
				size_t block;
				at += block_scanner_feed(
					scanner, turns->text.data + at, end - at, &block);
				blocks += block != BLOCK_SCANNER_NO_END;
			}
		}
		blocks++;
	}
	block_scanner_destroy(scanner);
	return blocks;
}

static void run_buffer(const struct turns *turns, size_t chunk, struct sink *sink)
{
	struct stream_buffer *sb = stream_buffer_create(limits_default(), 1, &ops, sink);
	size_t at = 0;
	for (size_t turn = 0; turn < turns->count; turn++) {
		while (at < turns->ends[turn]) {
			size_t end = chunk_end(&turns->text, at, turns->ends[turn], chunk);
			stream_buffer_put(sb, &(struct stream_input){
						      .type = EVENT_MESSAGE_CHUNK,
						      .data = turns->text.data + at,
						      .data_len = end - at,
					      });
			watch_memory(sink);
			at = end;
		}
		stream_buffer_finish_turn(sb);
	}
	stream_buffer_destroy(sb);
}

static void run_cmark(const struct buffer *markdown, const struct buffer *lengths)
{
	static const char *const names[] = {"table", "strikethrough", "autolink", "tasklist"};
	cmark_syntax_extension *extensions[4];
	for (size_t i = 0; i < 4; i++) {
		extensions[i] = cmark_find_syntax_extension(names[i]);
	}
	size_t at = 0;
	for (size_t block = 0; block < lengths->len / sizeof(size_t); block++) {
		size_t len;
		memcpy(&len, lengths->data + block * sizeof(size_t), sizeof(size_t));
		cmark_parser *parser = cmark_parser_new(CMARK_OPT_VALIDATE_UTF8);
		for (size_t i = 0; i < 4; i++) {
			cmark_parser_attach_syntax_extension(parser, extensions[i]);
		}
		cmark_parser_feed(parser, markdown->data + at, len);
		cmark_node *root = cmark_parser_finish(parser);
		free(cmark_render_html(
			root, CMARK_OPT_DEFAULT, cmark_parser_get_syntax_extensions(parser)));
		cmark_node_free(root);
		cmark_parser_free(parser);
		at += len;
	}
}

/* --- ordinary text --- */

enum measure {
	SCANNER,
	SCANNER_LARGE,
	SCANNER_SMALL,
	BUFFER,
	BUFFER_LARGE,
	BUFFER_SMALL,
	RENDERED,
	CMARK,
	MEASURES,
};

static const struct {
	const char *name;
	size_t chunk;
} measures[MEASURES] = {
	[SCANNER] = {"scanner alone", CHUNK_SIZE},
	[SCANNER_LARGE] = {"scanner alone", 64 * KIB},
	[SCANNER_SMALL] = {"scanner alone", 5},
	[BUFFER] = {"stream buffer", CHUNK_SIZE},
	[BUFFER_LARGE] = {"stream buffer", 64 * KIB},
	[BUFFER_SMALL] = {"stream buffer", 5},
	[RENDERED] = {"stream buffer and HTML of each block", CHUNK_SIZE},
	[CMARK] = {"cmark-gfm alone, given these blocks", 0},
};

struct ordinary {
	struct turns turns;
	struct buffer markdown;
	struct buffer lengths;
	size_t blocks;
	size_t lines;
};

static void ordinary_create(struct ordinary *o, size_t size)
{
	*o = (struct ordinary){0};
	o->turns.ends = xcalloc(size / TURN_SIZE + 1, sizeof(size_t));
	while (o->turns.text.len < size) {
		ordinary_text(&o->turns.text, SEED + o->turns.count, o->turns.text.len + TURN_SIZE);
		o->turns.ends[o->turns.count++] = o->turns.text.len;
	}
	struct sink sink = {.keep = &o->markdown, .lengths = &o->lengths};
	run_buffer(&o->turns, CHUNK_SIZE, &sink);
	sink_finish(&sink);
	o->blocks = sink.events;
	for (size_t i = 0; i < o->turns.text.len; i++) {
		o->lines += o->turns.text.data[i] == '\n';
	}
}

static void ordinary_destroy(struct ordinary *o)
{
	buffer_finish(&o->turns.text);
	buffer_finish(&o->markdown);
	buffer_finish(&o->lengths);
	free(o->turns.ends);
}

static uint64_t measure(const struct ordinary *o, enum measure what)
{
	struct sink sink = {.renders = what == RENDERED};
	uint64_t start = cpu_ns();
	if (what <= SCANNER_SMALL) {
		run_scanner(&o->turns, measures[what].chunk);
	} else if (what == CMARK) {
		run_cmark(&o->markdown, &o->lengths);
	} else {
		run_buffer(&o->turns, measures[what].chunk, &sink);
	}
	uint64_t took = cpu_ns() - start;
	sink_finish(&sink);
	return took;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(values[0]), compare_doubles);
	return values[count / 2];
}

static void print_measure(const struct ordinary *o, enum measure what, double ns)
{
	char chunk[32] = "–";
	if (measures[what].chunk) {
		snprintf(chunk, sizeof(chunk), "%zu bytes", measures[what].chunk);
	}
	printf("| %s | %s | **%.0f MB/s** | %.2f | %.0f k |\n", measures[what].name, chunk,
		(double)o->turns.text.len / ns * 1e3, ns / (double)o->turns.text.len,
		(double)o->blocks / ns * 1e6);
}

static void bench_ordinary(size_t size, size_t rounds)
{
	static double ns[MEASURES][ROUNDS_MAX];
	double ratios[ROUNDS_MAX];
	struct ordinary o;
	ordinary_create(&o, size);
	for (size_t round = 0; round < rounds; round++) {
		for (enum measure what = 0; what < MEASURES; what++) {
			ns[what][round] = (double)measure(&o, what);
		}
		ratios[round] = ns[CMARK][round] / ns[RENDERED][round];
	}
	printf("%zu bytes in %zu turns: %zu blocks of %zu bytes, lines of %zu bytes on average.\n\n",
		o.turns.text.len, o.turns.count, o.blocks, o.turns.text.len / o.blocks,
		o.turns.text.len / o.lines);
	puts("| ordinary text | chunks | rate | ns per byte | blocks/s |\n|---|---|---|---|---|");
	for (enum measure what = 0; what < MEASURES; what++) {
		print_measure(&o, what, median(ns[what], rounds));
	}
	printf("\nStream buffer and HTML to cmark-gfm alone: **%.2f** of its rate.\n\n",
		median(ratios, rounds));
	ordinary_destroy(&o);
}

/* --- hostile text --- */

static const size_t hostile_sizes[] = {KIB, 16 * KIB, 256 * KIB, MIB, 16 * MIB};

#define HOSTILE_SIZES (sizeof(hostile_sizes) / sizeof(hostile_sizes[0]))

enum stage {
	STAGE_SCANNER,
	STAGE_BUFFER,
	STAGE_GUARD,
	STAGE_RENDERER,
	STAGES,
};

static const char *const stage_names[STAGES] = {"scanner", "buffer", "guard", "buffer and HTML"};

/* Both uses of the guard, on pieces as long as the largest block. */
static void run_guard(const struct buffer *text)
{
	size_t cap = limits_default()->block_size;
	struct buffer healed = {0};
	for (size_t at = 0; at < text->len; at += cap) {
		size_t len = text->len - at < cap ? text->len - at : cap;
		healed.len = 0;
		inline_guard_is_open(text->data + at, len);
		inline_guard_heal(text->data + at, len, &healed);
	}
	buffer_finish(&healed);
}

static void run_stage(const struct turns *turns, enum stage stage)
{
	struct sink sink = {.renders = stage == STAGE_RENDERER};
	if (stage == STAGE_SCANNER) {
		run_scanner(turns, CHUNK_SIZE);
	} else if (stage == STAGE_GUARD) {
		run_guard(&turns->text);
	} else {
		run_buffer(turns, CHUNK_SIZE, &sink);
	}
	sink_finish(&sink);
}

/*
 * Short texts are read again and again, for a millisecond at least; the best of three counts, of
 * what takes longer than a tenth of a second the first.
 */
static double stage_ns_per_byte(const struct turns *turns, enum stage stage)
{
	double best = 0;
	uint64_t took = 0;
	for (int try = 0; try < 3 && took < NS_PER_SECOND / 10; try++) {
		uint64_t runs = 0;
		uint64_t start = cpu_ns();
		do {
			run_stage(turns, stage);
			runs++;
			took = cpu_ns() - start;
		} while (took < NS_PER_SECOND / 1000);
		double ns = (double)took / (double)runs / (double)turns->text.len;
		best = !try || ns < best ? ns : best;
	}
	return best;
}

/* The most that the buffer and its events have of the heap. */
static size_t buffer_memory(const struct turns *turns)
{
	struct sink sink = {.watches_memory = true};
	size_t before = memory_now();
	run_buffer(turns, CHUNK_SIZE, &sink);
	return sink.memory_most - before;
}

static void bench_shape(const struct hostile_shape *shape)
{
	double ns[STAGES][HOSTILE_SIZES];
	size_t memory = 0;
	for (size_t i = 0; i < HOSTILE_SIZES; i++) {
		struct turns turns = {.count = 1};
		hostile_text(&turns.text, shape, hostile_sizes[i]);
		turns.ends = &turns.text.len;
		for (enum stage stage = 0; stage < STAGES; stage++) {
			ns[stage][i] = stage_ns_per_byte(&turns, stage);
		}
		memory = buffer_memory(&turns);
		buffer_finish(&turns.text);
	}
	printf("| %s |", shape->name);
	for (enum stage stage = 0; stage < STAGES; stage++) {
		for (size_t i = 0; i < HOSTILE_SIZES; i++) {
			printf("%s%.*f", i ? " / " : " ", ns[stage][i] < 9.95 ? 1 : 0,
				ns[stage][i]);
		}
		printf(" |");
	}
	printf(" %zu KiB |\n", memory / KIB);
	fflush(stdout);
}

static void bench_hostile(void)
{
	printf("| hostile text, ns per byte at 1 KiB / 16 KiB / 256 KiB / 1 MiB / 16 MiB |");
	for (enum stage stage = 0; stage < STAGES; stage++) {
		printf(" %s |", stage_names[stage]);
	}
	puts(" memory of the buffer |\n|---|---|---|---|---|---|");
	for (size_t i = 0; i < hostile_shape_count; i++) {
		bench_shape(&hostile_shapes[i]);
	}
	puts("");
}

/* --- the command line --- */

static const char usage[] =
	"Usage: holdfast-bench-stream ordinary|hostile|all [--mib N] [--rounds N]\n\n"
	"ordinary: N MiB (default 16) of markdown as agents write it, through the block scanner, the\n"
	"stream buffer and the renderer, and through cmark-gfm; medians of N rounds (default 5).\n"
	"hostile: texts made to hurt, from 1 KiB to 16 MiB.\n";

int main(int argc, char **argv)
{
	size_t mib = 16;
	size_t rounds = 5;
	const char *mode = argc > 1 ? argv[1] : "";
	for (int i = 2; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--mib") == 0) {
			mib = parse_number(argv[i], argv[i + 1], 1, 1024);
		} else if (strcmp(argv[i], "--rounds") == 0) {
			rounds = parse_number(argv[i], argv[i + 1], 1, ROUNDS_MAX);
		} else {
			die("no such option: %s", argv[i]);
		}
	}
	bool all = strcmp(mode, "all") == 0;
	bool ordinary = all || strcmp(mode, "ordinary") == 0;
	bool hostile = all || strcmp(mode, "hostile") == 0;
	if (!ordinary && !hostile) {
		fputs(usage, stderr);
		return 1;
	}
	cmark_gfm_core_extensions_ensure_registered();
	if (ordinary) {
		bench_ordinary(mib * MIB, rounds);
	}
	if (hostile) {
		bench_hostile();
	}
	return 0;
}
