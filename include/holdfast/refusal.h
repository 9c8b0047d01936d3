/* A refusal: an error code of proto/protocol.md and a message that says what to do. Pure. */
#ifndef HOLDFAST_REFUSAL_H
#define HOLDFAST_REFUSAL_H

#include "holdfast/error_codes.h"
#include "holdfast/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The kind of object that an error's id names. */
enum error_about {
	ABOUT_PROMPT,
	ABOUT_PERMISSION,
	ABOUT_MODE,
	ABOUT_MODEL,
	ABOUT_OPTION,
	ABOUT_LOGIN,
	ABOUT_APPEND
};

/** Optional members of an error besides its code and message. All zero: none. */
struct error_detail {
	enum error_about about;
	const char *id; /* borrowed; for ABOUT_APPEND the `ref`, as JSON; NULL: none */
	uint64_t seq; /* of the conflicting event; 0: none */
	char by[128]; /* who came first; "" if nobody did */
	char sub[129]; /* the sub of their token; "" if it has none */
	bool has_index;
	size_t index; /* of the refused event or message */
	bool has_stored;
	size_t stored; /* number of events before it that were stored */
	bool is_in_doubt; /* it is unknown whether the request was stored */
	uint64_t lost_from; /* range of damaged events; 0: none */
	uint64_t lost_to;
};

/** Why something is refused. */
struct refusal {
	enum error_code code; /* ERROR_NONE: not refused */
	enum limit limit; /* the limit that was reached, or LIMIT_NONE */
	char message[256];
	char request[32]; /* type of the refused frame; "" if unreadable */
	char prompt_id[129]; /* of the prompt that the frame is about; "" if none */
	struct error_detail detail;
};

/** Sets the refusal and returns -EINVAL. */
__attribute__((format(printf, 3, 4))) int refuse(
	struct refusal *refusal, enum error_code code, const char *fmt, ...);

/** Like refuse(), for a limit that was reached, with that limit's code. */
__attribute__((format(printf, 3, 4))) int refuse_limit(
	struct refusal *refusal, enum limit limit, const char *fmt, ...);

/** What a server keeps its sessions in. */
enum storage_kind { STORAGE_DISK, STORAGE_DATABASE };
/** "disk" or "database". */
const char *storage_name(enum storage_kind kind);
/** Kinds of storage failures. */
enum storage_trouble {
	STORAGE_WRITE, /* nothing of the request is stored */
	STORAGE_IN_DOUBT, /* it may still be there after a crash */
	STORAGE_NAMES, /* names in a request cannot be looked up */
	STORAGE_EVENTS, /* events cannot be read */
	STORAGE_BLOB, /* an image or file cannot be read */
};
/** Returns the message for a storage failure (static text). */
const char *storage_text(enum storage_kind kind, enum storage_trouble trouble);
/** refuse() with storage_failed. */
int refuse_storage(struct refusal *refusal, enum storage_kind kind, enum storage_trouble trouble);
/** Refuses because of the error of a lookup: keys_damaged for -ENODATA, else storage_failed. */
int refuse_names(struct refusal *refusal, enum storage_kind kind, int error);

/**
 * Replaces bytes that are not valid UTF-8 with `?`, for texts that may have been cut inside a
 * character.
 */
void utf8_repair(char *text);

#endif
