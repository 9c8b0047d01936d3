/*
 * A bump allocator for cmark-gfm, which allocates some hundred small pieces per block of markdown
 * and frees them all at the end; malloc() took a third of the time. Pieces come from a space that
 * is reused for the next document. What does not fit comes from malloc(), so large documents need
 * no more memory than before.
 *
 * cmark-gfm's allocator interface has no context argument, so the space is static, one per thread;
 * nothing in it outlives a document.
 */
#include "render_internal.h"

#include <stdlib.h>
#include <string.h>

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size)   ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

#define SPACE_SIZE ((size_t)64 * 1024)
/* Before each piece is its size, poisoned for cmark-gfm under AddressSanitizer. */
#define HEAD_SIZE 16

static _Thread_local _Alignas(HEAD_SIZE) char space[SPACE_SIZE];
static _Thread_local size_t space_used;

static bool is_inside(const void *piece)
{
	uintptr_t at = (uintptr_t)piece;
	return at >= (uintptr_t)space && at < (uintptr_t)space + SPACE_SIZE;
}

static size_t piece_size(const char *piece)
{
	size_t size;
	ASAN_UNPOISON_MEMORY_REGION(piece - HEAD_SIZE, HEAD_SIZE);
	memcpy(&size, piece - HEAD_SIZE, sizeof(size));
	ASAN_POISON_MEMORY_REGION(piece - HEAD_SIZE, HEAD_SIZE);
	return size;
}

/* Returns NULL if there is no room. */
static char *take(size_t size)
{
	size_t room = SPACE_SIZE - space_used;
	if (room <= HEAD_SIZE || size >= room - HEAD_SIZE) {
		return NULL;
	}
	char *piece = space + space_used + HEAD_SIZE;
	ASAN_UNPOISON_MEMORY_REGION(piece - HEAD_SIZE, HEAD_SIZE + size);
	memcpy(piece - HEAD_SIZE, &size, sizeof(size));
	ASAN_POISON_MEMORY_REGION(piece - HEAD_SIZE, HEAD_SIZE);
	size_t whole = HEAD_SIZE + (size + HEAD_SIZE - 1) / HEAD_SIZE * HEAD_SIZE;
	space_used += whole < room ? whole : room;
	return piece;
}

static void *scratch_calloc(size_t count, size_t size)
{
	char *piece = count && size > SPACE_SIZE / count ? NULL : take(count * size);
	return piece ? memset(piece, 0, count * size) : xcalloc(count, size);
}

static void scratch_free(void *piece)
{
	if (!is_inside(piece)) {
		free(piece);
	} else {
		ASAN_POISON_MEMORY_REGION(piece, piece_size(piece));
	}
}

static void *scratch_realloc(void *piece, size_t size)
{
	if (piece && !is_inside(piece)) {
		return xrealloc(piece, size);
	}
	size_t had = piece ? piece_size(piece) : 0;
	if (piece && size <= had) {
		return piece;
	}
	char *larger = take(size);
	larger = larger ? larger : xmalloc(size);
	if (piece) {
		memcpy(larger, piece, had);
		scratch_free(piece);
	}
	return larger;
}

cmark_mem *scratch_memory(void)
{
	static cmark_mem memory = {scratch_calloc, scratch_realloc, scratch_free};
	return &memory;
}

void scratch_reset(void)
{
	space_used = 0;
	ASAN_POISON_MEMORY_REGION(space, SPACE_SIZE);
}
