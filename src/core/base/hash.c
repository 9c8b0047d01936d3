#include "holdfast/hash.h"
#include "holdfast/buffer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <threads.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct node {
	struct node *next;
	uint64_t digest;
	void *value;
	size_t len;
	char key[];
};

struct hash {
	struct node **chains; /* chain_count of them, a power of two */
	size_t chain_count;
	size_t count;
};

/* Shared by all tables of the process. */
static uint64_t seed;
static once_flag seed_once = ONCE_FLAG_INIT;

static void make_seed(void)
{
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed)) {
		seed = (uint64_t)(uintptr_t)&make_seed;
	}
}

struct hash *hash_create(void)
{
	struct hash *h = xcalloc(1, sizeof(*h));
	call_once(&seed_once, make_seed);
	h->chain_count = 16;
	h->chains = xcalloc(h->chain_count, sizeof(*h->chains));
	return h;
}

void hash_destroy(struct hash *h)
{
	if (!h) {
		return;
	}
	for (size_t i = 0; i < h->chain_count; i++) {
		struct node *next;
		for (struct node *node = h->chains[i]; node; node = next) {
			next = node->next;
			free(node);
		}
	}
	free(h->chains);
	free(h);
}

static void free_value(void *value, void *arg)
{
	free(value);
}

void hash_destroy_all(struct hash *h)
{
	if (h) {
		hash_each(h, free_value, NULL);
		hash_destroy(h);
	}
}

/** Returns the link that points to the key's node, or the NULL link at the end of its chain. */
static struct node **find(const struct hash *h, const char *key, size_t len, uint64_t digest)
{
	struct node **at = &h->chains[digest & (h->chain_count - 1)];
	while (*at && !((*at)->digest == digest && (*at)->len == len &&
			      memcmp((*at)->key, key, len) == 0)) {
		at = &(*at)->next;
	}
	return at;
}

static void grow(struct hash *h)
{
	size_t count = h->chain_count * 2;
	struct node **chains = xcalloc(count, sizeof(*chains));
	for (size_t i = 0; i < h->chain_count; i++) {
		struct node *next;
		for (struct node *node = h->chains[i]; node; node = next) {
			next = node->next;
			node->next = chains[node->digest & (count - 1)];
			chains[node->digest & (count - 1)] = node;
		}
	}
	free(h->chains);
	h->chains = chains;
	h->chain_count = count;
}

void *hash_get(const struct hash *h, const char *key, size_t len)
{
	struct node *node = *find(h, key, len, XXH3_64bits_withSeed(key, len, seed));
	return node ? node->value : NULL;
}

void *hash_put(struct hash *h, const char *key, size_t len, void *value)
{
	uint64_t digest = XXH3_64bits_withSeed(key, len, seed);
	struct node **at = find(h, key, len, digest);
	if (*at) {
		void *had = (*at)->value;
		(*at)->value = value;
		return had;
	}
	struct node *node = xmalloc(sizeof(*node) + len);
	*node = (struct node){.digest = digest, .value = value, .len = len};
	memcpy(node->key, key, len);
	*at = node;
	if (++h->count > h->chain_count) {
		grow(h);
	}
	return NULL;
}

void *hash_remove(struct hash *h, const char *key, size_t len)
{
	struct node **at = find(h, key, len, XXH3_64bits_withSeed(key, len, seed));
	struct node *node = *at;
	if (!node) {
		return NULL;
	}
	void *had = node->value;
	*at = node->next;
	free(node);
	h->count--;
	return had;
}

size_t hash_count(const struct hash *h)
{
	return h->count;
}

void hash_filter(struct hash *h, bool (*keep)(void *value, void *arg), void *arg)
{
	for (size_t i = 0; i < h->chain_count; i++) {
		struct node **at = &h->chains[i];
		while (*at) {
			struct node *node = *at;
			if (keep(node->value, arg)) {
				at = &node->next;
				continue;
			}
			*at = node->next;
			free(node);
			h->count--;
		}
	}
}

void hash_each(const struct hash *h, void (*visit)(void *value, void *arg), void *arg)
{
	for (size_t i = 0; i < h->chain_count; i++) {
		for (struct node *node = h->chains[i]; node; node = node->next) {
			visit(node->value, arg);
		}
	}
}
