#include "pool.h"

#include "holdfast/buffer.h"

#include <stdlib.h>
#include <string.h>

/* Large enough that malloc() uses mmap for it. */
#define PIECE_SIZE ((size_t)256 * 1024)

/* The head of a piece, and of an object that is not in use. */
struct chain {
	void *next;
	max_align_t objects[];
};

void pool_init(struct pool *pool, size_t size)
{
	size_t align = _Alignof(max_align_t);
	*pool = (struct pool){.size = (size + align - 1) / align * align};
}

void pool_finish(struct pool *pool)
{
	for (struct chain *piece = pool->pieces; piece;) {
		struct chain *next = piece->next;
		free(piece);
		piece = next;
	}
	*pool = (struct pool){.size = pool->size};
}

static void add_piece(struct pool *pool)
{
	struct chain *piece = xmalloc(PIECE_SIZE);
	piece->next = pool->pieces;
	pool->pieces = piece;
	pool->fresh = (char *)piece->objects;
	pool->fresh_count = (PIECE_SIZE - offsetof(struct chain, objects)) / pool->size;
}

static void *take_fresh(struct pool *pool)
{
	if (!pool->fresh_count) {
		add_piece(pool);
	}
	void *object = pool->fresh;
	pool->fresh += pool->size;
	pool->fresh_count--;
	return object;
}

void *pool_take(struct pool *pool)
{
	struct chain *object = pool->free;
	if (!object) {
		object = take_fresh(pool);
	} else {
		pool->free = object->next;
	}
	return memset(object, 0, pool->size);
}

void pool_give(struct pool *pool, void *object)
{
	struct chain *link = object;
	link->next = pool->free;
	pool->free = link;
}
