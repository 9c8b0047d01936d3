/*
 * Objects of one size, side by side in large pieces of memory: for what stays long among much that
 * comes and goes, and would else pin a page each. What is freed is used again, not given back.
 */
#ifndef HOLDFAST_POOL_H
#define HOLDFAST_POOL_H

#include <stddef.h>

struct pool {
	size_t size; /* of an object */
	void *free; /* a chain through the objects that are not in use */
	void *pieces; /* a chain through the pieces */
	char *fresh; /* the newest piece's objects that were never in use … */
	size_t fresh_count; /* … and how many they are: their memory has not been touched */
};

void pool_init(struct pool *pool, size_t size);
/** All its objects go with it. */
void pool_finish(struct pool *pool);
/** A zeroed object. */
void *pool_take(struct pool *pool);
void pool_give(struct pool *pool, void *object);

#endif
