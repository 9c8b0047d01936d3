/*
 * A pool of objects of one size, packed into large pieces of memory. For long-lived objects among
 * much short-lived memory, each of which would otherwise keep a page of the heap in use. Freed
 * objects are reused; their memory is returned to the system only by pool_finish().
 */
#ifndef HOLDFAST_POOL_H
#define HOLDFAST_POOL_H

#include <stddef.h>

struct pool {
	size_t size; /* bytes per object */
	void *free; /* list of objects given back */
	void *pieces; /* list of pieces */
	char *fresh; /* the never used objects of the newest piece … */
	size_t fresh_count; /* … and their number; their memory is untouched */
};

void pool_init(struct pool *pool, size_t size);
/** Frees all objects. */
void pool_finish(struct pool *pool);
/** Returns a zeroed object. Give it back with pool_give(). */
void *pool_take(struct pool *pool);
void pool_give(struct pool *pool, void *object);

#endif
