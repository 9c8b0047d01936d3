/*
 * A hash map from byte-string keys to pointers. Keys are copied in; values stay the caller's.
 * Hashing is xxh3_64 with a seed from the system's random source, so that names chosen by a
 * stranger cannot pile up in one chain.
 */
#ifndef HOLDFAST_HASH_H
#define HOLDFAST_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash;

struct hash *hash_create(void);
/** Accepts NULL. The values are not touched. */
void hash_destroy(struct hash *h);
/** The value of a key, or NULL. */
void *hash_get(const struct hash *h, const char *key, size_t len);
/** Sets a key's value, which must not be NULL; returns the one it had, or NULL. */
void *hash_put(struct hash *h, const char *key, size_t len, void *value);
/** Removes a key; returns the value it had, or NULL. */
void *hash_remove(struct hash *h, const char *key, size_t len);
size_t hash_count(const struct hash *h);
/** Removes every entry that `keep` says no to, in no order; it may free the value then. */
void hash_filter(struct hash *h, bool (*keep)(void *value, void *arg), void *arg);
/** Calls `visit` for every value in no order; it must not change the map. */
void hash_each(const struct hash *h, void (*visit)(void *value, void *arg), void *arg);

#endif
