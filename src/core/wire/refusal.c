#include "holdfast/refusal.h"

#include "holdfast/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void utf8_repair(char *text)
{
	for (size_t len; *text; text += len) {
		len = utf8_length(text, strnlen(text, 4));
		if (!len) {
			*text = '?';
			len = 1;
		}
	}
}

static void set(struct refusal *refusal, enum error_code code, const char *fmt, va_list args)
{
	refusal->code = code;
	refusal->limit = LIMIT_NONE;
	vsnprintf(refusal->message, sizeof(refusal->message), fmt, args);
	utf8_repair(refusal->message); /* quoted input may have been cut inside a character */
}

int refuse(struct refusal *refusal, enum error_code code, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	set(refusal, code, fmt, args);
	va_end(args);
	return -EINVAL;
}

int refuse_limit(struct refusal *refusal, enum limit limit, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	set(refusal, limit_code(limit), fmt, args);
	va_end(args);
	refusal->limit = limit;
	return -EINVAL;
}

const char *storage_name(enum storage_kind kind)
{
	return kind == STORAGE_DATABASE ? "database" : "disk";
}

#define TEXTS(name)                                                                                                                       \
	{                                                                                                                                 \
		[STORAGE_WRITE] = "the server cannot write to its " name                                                                  \
				  "; nothing was stored (see the server's log)",                                                          \
		[STORAGE_IN_DOUBT] =                                                                                                      \
			"the server could not write to its " name                                                                         \
			" and could not undo the write yet: it will be undone, unless the server is killed first (see the server's log)", \
		[STORAGE_NAMES] = "the server cannot read the session's names from its " name                                             \
				  "; nothing was stored (see the server's log)",                                                          \
		[STORAGE_EVENTS] = "the server cannot read the events from its " name                                                     \
				   " (see the server's log)",                                                                             \
		[STORAGE_BLOB] = "the server cannot read the file from its " name                                                         \
				 " (see the server's log)",                                                                               \
	}

const char *storage_text(enum storage_kind kind, enum storage_trouble trouble)
{
	static const char *const texts[][STORAGE_BLOB + 1] = {
		[STORAGE_DISK] = TEXTS("disk"), [STORAGE_DATABASE] = TEXTS("database")};
	return texts[kind][trouble];
}

int refuse_storage(struct refusal *refusal, enum storage_kind kind, enum storage_trouble trouble)
{
	return refuse(refusal, ERROR_storage_failed, "%s", storage_text(kind, trouble));
}

int refuse_names(struct refusal *refusal, enum storage_kind kind, int error)
{
	return error == -ENODATA
		       ? refuse(refusal, ERROR_keys_damaged,
				 "keys or runs of this session are lost, so the server cannot tell whether this was stored before; nothing was stored, and the server's operator has to repair the session")
		       : refuse_storage(refusal, kind, STORAGE_NAMES);
}
