/*
 * The logs of a store by their ids, and the pool that they live in: of a session that is not in
 * memory, one object remains, which contains the id if that fits.
 */
#include "store_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void log_table_init(struct log_table *table)
{
	*table = (struct log_table){.chain_count = 16};
	table->chains = xcalloc(table->chain_count, sizeof(struct session_log *));
	pool_init(&table->pool, sizeof(struct session_log));
	if (getrandom(&table->seed, sizeof(table->seed), GRND_NONBLOCK) != sizeof(table->seed)) {
		table->seed = (uint64_t)(uintptr_t)table;
	}
}

void log_table_finish(struct log_table *table)
{
	assert(!table->count);
	free(table->chains);
	pool_finish(&table->pool);
}

static struct session_log **chain_of(const struct log_table *table, uint64_t digest)
{
	return &table->chains[digest & (table->chain_count - 1)];
}

struct session_log *log_table_get(const struct log_table *table, const char *id, size_t len)
{
	uint64_t digest = XXH3_64bits_withSeed(id, len, table->seed);
	struct session_log *log = *chain_of(table, digest);
	while (log && !(log->digest == digest && strlen(log->id) == len &&
			      memcmp(log->id, id, len) == 0)) {
		log = log->next_in_chain;
	}
	return log;
}

static void grow(struct log_table *table)
{
	struct log_table larger = *table;
	larger.chain_count *= 2;
	larger.chains = xcalloc(larger.chain_count, sizeof(struct session_log *));
	for (size_t i = 0; i < table->chain_count; i++) {
		struct session_log *next;
		for (struct session_log *log = table->chains[i]; log; log = next) {
			struct session_log **chain = chain_of(&larger, log->digest);
			next = log->next_in_chain;
			log->next_in_chain = *chain;
			*chain = log;
		}
	}
	free(table->chains);
	*table = larger;
}

void log_table_put(struct log_table *table, struct session_log *log)
{
	log->digest = XXH3_64bits_withSeed(log->id, strlen(log->id), table->seed);
	struct session_log **chain = chain_of(table, log->digest);
	log->next_in_chain = *chain;
	*chain = log;
	if (++table->count > table->chain_count) {
		grow(table);
	}
}

void log_table_remove(struct log_table *table, struct session_log *log)
{
	struct session_log **at = chain_of(table, log->digest);
	while (*at != log) {
		at = &(*at)->next_in_chain;
	}
	*at = log->next_in_chain;
	table->count--;
}
