/*
 * A hash map from byte strings to pointers. Keys are copied; values stay the caller's. Hashing is
 * xxh3_64 with a random seed, so that attackers who choose names cannot force collisions.
 */
#ifndef HOLDFAST_HASH_H
#define HOLDFAST_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash;

/** Creates an empty map, owned by the caller. */
struct hash *hash_create(void);
/** Frees the map, but not the values. Accepts NULL. */
void hash_destroy(struct hash *h);
/** Frees the map and its values, with free(). Accepts NULL. */
void hash_destroy_all(struct hash *h);
/** Returns the value of a key, or NULL. */
void *hash_get(const struct hash *h, const char *key, size_t len);
/** Sets the value of a key; it must not be NULL. Returns the previous value, or NULL. */
void *hash_put(struct hash *h, const char *key, size_t len, void *value);
/** Removes a key. Returns its value, or NULL if it was not present. */
void *hash_remove(struct hash *h, const char *key, size_t len);
size_t hash_count(const struct hash *h);
/**
 * Removes every entry for which `keep` returns false; `keep` can free that value. The order is
 * unspecified.
 */
void hash_filter(struct hash *h, bool (*keep)(void *value, void *arg), void *arg);
/** Calls `visit` for every value, in unspecified order. `visit` must not change the map. */
void hash_each(const struct hash *h, void (*visit)(void *value, void *arg), void *arg);

#endif
