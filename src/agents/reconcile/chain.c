#include "align.h"

#include <stdlib.h>

/* A Fenwick tree: for each position of the log, the best chain that ends there or earlier. */
struct ends {
	struct link *links;
	size_t *best; /* index of a link + 1; 0: none */
	size_t size;
	bool later;
};

static bool is_better(const struct ends *ends, size_t a, size_t b)
{
	if (!a || !b) {
		return a != 0;
	}
	const struct link *x = &ends->links[a - 1];
	const struct link *y = &ends->links[b - 1];
	if (x->best != y->best) {
		return x->best > y->best;
	}
	if (x->told_from != y->told_from) {
		return (x->told_from > y->told_from) == ends->later;
	}
	return x->log_to < y->log_to;
}

/** The best of the chains that end at `at` or earlier. */
static size_t best_until(const struct ends *ends, size_t at)
{
	size_t best = 0;
	for (size_t i = at + 1; i > 0; i &= i - 1) {
		best = is_better(ends, ends->best[i], best) ? ends->best[i] : best;
	}
	return best;
}

static void add_end(struct ends *ends, size_t link)
{
	for (size_t i = ends->links[link].log_to + 1; i <= ends->size; i += i & (~i + 1)) {
		if (is_better(ends, link + 1, ends->best[i])) {
			ends->best[i] = link + 1;
		}
	}
}

struct order {
	size_t told_to;
	size_t link;
};

static int compare_orders(const void *a, const void *b)
{
	const struct order *x = a;
	const struct order *y = b;
	if (x->told_to != y->told_to) {
		return x->told_to < y->told_to ? -1 : 1;
	}
	return x->link < y->link ? -1 : x->link > y->link;
}

static void choose_back(struct ends *ends, size_t last)
{
	for (size_t link = last; link != SIZE_MAX; link = ends->links[link].before) {
		ends->links[link].is_chosen = true;
	}
}

void chain_choose(struct link *links, size_t count, size_t log_size, bool later)
{
	if (!count) {
		return;
	}
	struct ends ends = {.links = links,
		.best = xcalloc(log_size + 1, sizeof(size_t)),
		.size = log_size,
		.later = later};
	struct order *by_end = xmalloc(count * sizeof(*by_end));
	for (size_t i = 0; i < count; i++) {
		by_end[i] = (struct order){links[i].told_to, i};
		links[i].is_chosen = false;
	}
	qsort(by_end, count, sizeof(*by_end), compare_orders);
	size_t ended = 0;
	for (size_t i = 0; i < count; i++) {
		for (; ended < count && by_end[ended].told_to <= links[i].told_from; ended++) {
			add_end(&ends, by_end[ended].link);
		}
		size_t before = best_until(&ends, links[i].log_from);
		links[i].before = before - 1;
		links[i].best = links[i].weight + (before ? links[before - 1].best : 0);
	}
	for (; ended < count; ended++) {
		add_end(&ends, by_end[ended].link);
	}
	choose_back(&ends, best_until(&ends, log_size - 1) - 1);
	free(by_end);
	free(ends.best);
}
