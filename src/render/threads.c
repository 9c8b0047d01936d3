/*
 * Several threads may render at once. What is in cmark-gfm's way is one table: which characters its
 * inline parser stops at is the same for all parsers, and those of the extensions are entered before
 * each document and taken out behind it, by a function that the library calls by its exported name.
 * When shared libraries are linked, the one below comes first. It has them entered once. Where it is not
 * called (a library that binds its own calls), a lock lets one document through at a time. Where the
 * library is linked statically, the linker says that there are two of them.
 *
 * (To take the characters out of the extensions does not do: the parser finds by them whose they are,
 * and goes round for ever.)
 */
#include "render_internal.h"

#include <dlfcn.h>
#include <pthread.h>

static pthread_once_t begun = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_beginning;
static bool is_ours; /* the library calls our function; known once begun */

__attribute__((visibility("default"))) void cmark_manage_extensions_special_characters(
	cmark_parser *parser, int add);

void cmark_manage_extensions_special_characters(cmark_parser *parser, int add)
{
	void (*theirs)(cmark_parser *, int);
	if (is_ours) {
		return;
	}
	void *found = dlsym(RTLD_NEXT, "cmark_manage_extensions_special_characters");
	*(void **)&theirs = found;
	if (found) {
		theirs(parser, add);
		is_ours = is_beginning;
	}
}

static void begin(void)
{
	cmark_parser *parser = render_parser_create();
	is_beginning = true;
	cmark_parser_feed(parser, "~a~", 3);
	cmark_node_free(cmark_parser_finish(parser));
	cmark_parser_free(parser);
	scratch_reset();
	is_beginning = false;
}

void render_enter(void)
{
	pthread_once(&begun, begin);
	if (!is_ours) {
		pthread_mutex_lock(&lock);
	}
}

void render_leave(void)
{
	if (!is_ours) {
		pthread_mutex_unlock(&lock);
	}
}
