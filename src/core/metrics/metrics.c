#include "holdfast/metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct word_count {
	struct word_count *next;
	char *word;
	uint64_t count;
};

static const struct row {
	const char *kind;
	const char *name;
	const char *labels;
	const char *help;
} rows[] = {
#define ROW(id, kind, name, labels, help) {#kind, name, labels, help},
	METRICS_TABLE(ROW)
#undef ROW
};

static const double seconds[HISTOGRAM_BUCKETS] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
	0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10};
static const double hours[HISTOGRAM_BUCKETS] = {
	0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400};
static const double counts[HISTOGRAM_BUCKETS] = {
	1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

static const struct {
	const double *bounds;
	const char *name;
	const char *help;
} histogram_rows[] = {
#define ROW(id, bounds, name, help) {bounds, name, help},
	HISTOGRAMS_TABLE(ROW)
#undef ROW
};

static const struct {
	const char *name;
	const char *label;
	const char *help;
} word_rows[] = {
#define ROW(id, name, label, help) {name, label, help},
	WORDS_TABLE(ROW)
#undef ROW
};

struct metrics *metrics_create(void)
{
	return xcalloc(1, sizeof(struct metrics));
}

void metrics_destroy(struct metrics *metrics)
{
	for (size_t i = 0; metrics && i < WORDS_COUNT; i++) {
		while (metrics->words[i]) {
			struct word_count *word = metrics->words[i];
			metrics->words[i] = word->next;
			free(word->word);
			free(word);
		}
	}
	free(metrics);
}

/* --- counting --- */

void metrics_observe(struct metrics *metrics, enum histogram_id id, double value)
{
	if (!metrics) {
		return;
	}
	const double *bounds = histogram_rows[id].bounds;
	size_t i = 0;
	while (i < HISTOGRAM_BUCKETS && value > bounds[i]) {
		i++;
	}
	metrics->histograms[id].buckets[i]++;
	metrics->histograms[id].sum += value;
}

void metrics_add_word(struct metrics *metrics, enum words id, const char *word, uint64_t count)
{
	if (!metrics) {
		return;
	}
	struct word_count **at = &metrics->words[id];
	while (*at && strcmp((*at)->word, word) != 0) {
		at = &(*at)->next;
	}
	if (!*at) {
		*at = xcalloc(1, sizeof(**at));
		(*at)->word = xstrdup(word);
	}
	(*at)->count += count;
}

void metrics_refused(struct metrics *metrics, enum error_code code, enum limit limit)
{
	if (metrics) {
		metrics->refusals[code]++;
	}
	metrics_limit(metrics, limit);
}

/* --- the text --- */

static void write_head(struct buffer *out, const char *name, const char *kind, const char *help)
{
	buffer_printf(
		out, "# HELP holdfast_%s %s\n# TYPE holdfast_%s %s\n", name, help, name, kind);
}

static void write_values(const struct metrics *metrics, struct buffer *out)
{
	for (size_t i = 0; i < METRIC_COUNT; i++) {
		const struct row *row = &rows[i];
		if (i == 0 || strcmp(row->name, rows[i - 1].name) != 0) {
			write_head(out, row->name, row->kind, row->help);
		}
		buffer_printf(out, "holdfast_%s%s %" PRIu64 "\n", row->name, row->labels,
			metrics->values[i]);
	}
}

static void write_words(const struct metrics *metrics, enum words id, struct buffer *out)
{
	write_head(out, word_rows[id].name, "counter", word_rows[id].help);
	for (const struct word_count *word = metrics->words[id]; word; word = word->next) {
		buffer_printf(out, "holdfast_%s{%s=\"%s\"} %" PRIu64 "\n", word_rows[id].name,
			word_rows[id].label, word->word, word->count);
	}
}

static void write_refusals(const struct metrics *metrics, struct buffer *out)
{
	write_head(out, "refusals_total", "counter", "Refusals sent to clients, by their code");
	for (enum error_code code = ERROR_NONE + 1; code < ERROR_COUNT; code++) {
		buffer_printf(out, "holdfast_refusals_total{code=\"%s\"} %" PRIu64 "\n",
			error_code_text(code), metrics->refusals[code]);
	}
}

static void write_limits(const struct metrics *metrics, struct buffer *out)
{
	write_head(out, "limit_reached_total", "counter",
		"How often a client reached a limit, by its name (holdfast limits)");
	for (enum limit limit = LIMIT_NONE + 1; limit < LIMIT_COUNT; limit++) {
		if (limit_outcome(limit)) {
			buffer_printf(out,
				"holdfast_limit_reached_total{limit=\"%s\"} %" PRIu64 "\n",
				limit_name(limit), metrics->limits[limit]);
		}
	}
}

static void write_histogram(const struct metrics *metrics, enum histogram_id id, struct buffer *out)
{
	const struct histogram *histogram = &metrics->histograms[id];
	const char *name = histogram_rows[id].name;
	uint64_t count = 0;
	write_head(out, name, "histogram", histogram_rows[id].help);
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		count += histogram->buckets[i];
		buffer_printf(out, "holdfast_%s_bucket{le=\"%g\"} %" PRIu64 "\n", name,
			histogram_rows[id].bounds[i], count);
	}
	count += histogram->buckets[HISTOGRAM_BUCKETS];
	buffer_printf(out,
		"holdfast_%s_bucket{le=\"+Inf\"} %" PRIu64
		"\nholdfast_%s_sum %.15g\nholdfast_%s_count %" PRIu64 "\n",
		name, count, name, histogram->sum, name, count);
}

void metrics_write(const struct metrics *metrics, struct buffer *out)
{
	write_head(out, "build_info", "gauge", "1; the label is the version");
	buffer_append_str(out, "holdfast_build_info{version=\"" HOLDFAST_VERSION "\"} 1\n");
	write_values(metrics, out);
	write_refusals(metrics, out);
	for (enum words id = 0; id < WORDS_COUNT; id++) {
		write_words(metrics, id, out);
	}
	write_limits(metrics, out);
	for (enum histogram_id id = 0; id < HISTOGRAM_COUNT; id++) {
		write_histogram(metrics, id, out);
	}
}
