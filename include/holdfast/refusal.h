/* Why something is refused: a code of proto/protocol.md, and words that say what to do. Pure. */
#ifndef HOLDFAST_REFUSAL_H
#define HOLDFAST_REFUSAL_H

#include "holdfast/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Which id says what an error is about. */
enum error_about {
	ABOUT_PROMPT,
	ABOUT_PERMISSION,
	ABOUT_MODE,
	ABOUT_MODEL,
	ABOUT_OPTION,
	ABOUT_LOGIN,
	ABOUT_APPEND
};

/** What an error tells besides its code and words; all zero: nothing. */
struct error_detail {
	enum error_about about;
	const char *id; /* of that, borrowed; of ABOUT_APPEND the `ref`, as JSON; NULL: none */
	uint64_t seq; /* of what stands in the way; 0: nothing does */
	char by[128]; /* who was first, "" if nobody was */
	char sub[129]; /* whose token they have, "" if it has none */
	bool has_index;
	size_t index; /* of the event or message that is refused */
	bool has_stored;
	size_t stored; /* how many events in front of it are stored */
	bool is_in_doubt; /* it may turn out to be stored */
	uint64_t lost_from; /* the events that are damaged; 0: none are */
	uint64_t lost_to;
};

/** Why something is refused. `code` is a constant of proto/protocol.md. */
struct refusal {
	const char *code; /* NULL: it is not refused */
	enum limit limit; /* that was reached; LIMIT_NONE: none was */
	char message[256];
	char request[32]; /* type of the refused frame, "" if it could not be read */
	char prompt_id[129]; /* of the prompt that a refused frame is about, "" if it names none */
	struct error_detail detail;
};

/** Sets the refusal and returns -EINVAL. */
__attribute__((format(printf, 3, 4))) int refuse(
	struct refusal *refusal, const char *code, const char *fmt, ...);

/** The same for a limit that was reached, with its code. */
__attribute__((format(printf, 3, 4))) int refuse_limit(
	struct refusal *refusal, enum limit limit, const char *fmt, ...);

/** What the disk does not do. */
enum storage_trouble {
	STORAGE_WRITE, /* nothing of the request is stored */
	STORAGE_IN_DOUBT, /* it may be there after a crash */
	STORAGE_NAMES, /* what a request names cannot be looked up */
	STORAGE_EVENTS, /* events cannot be read */
};
const char *storage_text(enum storage_trouble trouble);
/** refuse() with storage_failed. */
int refuse_storage(struct refusal *refusal, enum storage_trouble trouble);

/** Makes what is no whole UTF-8 character into `?`: for texts that were cut to fit. */
void utf8_repair(char *text);

#endif
