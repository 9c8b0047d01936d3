/*
 * Lets several threads render at once. The obstacle in cmark-gfm is a global table of the
 * characters at which its inline parser stops: the characters of the extensions are added before
 * each document and removed after it, by a function that the library calls by its exported name.
 * With shared libraries, the definition below takes precedence, and adds the characters once. If
 * the library does not call it (because it binds its own calls), a lock admits one document at a
 * time. If the library is linked statically, the linker reports a duplicate definition.
 *
 * Removing the characters from the extensions instead does not work: the parser uses them to find
 * the extension in charge, and would loop forever.
 */
#include "render_internal.h"

#include <dlfcn.h>
#include <pthread.h>

static pthread_once_t begun = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_beginning;
static bool is_ours; /* the library calls our function; set by begin() */

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
