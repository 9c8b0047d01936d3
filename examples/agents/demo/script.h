/*
 * The scripts of the demo agent: lists of steps, which the build generates from scripts/(name).md,
 * and the words of a prompt that choose them. Everything here is data; turn.c plays it.
 */
#ifndef HOLDFAST_DEMO_AGENT_SCRIPT_H
#define HOLDFAST_DEMO_AGENT_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The outcome of the last step that asked the client for something; later steps can depend on it.
 */
enum demo_outcome {
	DEMO_ALLOWED = 1,
	DEMO_ALLOWED_BEFORE = 2, /* "always" was chosen earlier in this session */
	DEMO_REJECTED = 4,
	DEMO_UNASKED = 8, /* the client could not ask the user */
	DEMO_DONE = 16, /* a file was read or written */
	DEMO_FAILED = 32,
	DEMO_UNSUPPORTED = 64, /* the client does not offer files */
};

struct demo_call {
	const char *title;
	const char *kind; /* ACP's tool kind */
	const char *file; /* in the working directory, or NULL */
	int line; /* in that file, from 1; 0 if none */
	const char *query; /* for the raw input, or NULL */
	const char *result; /* text shown when it ends, or NULL */
	const char *new_text; /* of the file and of the diff that makes it; NULL: no diff */
};

struct demo_plan {
	const char *const *entries;
	size_t count;
};

enum demo_step_kind {
	DEMO_END = 0, /* the end of the script */
	DEMO_SAY, /* says a text, token by token */
	DEMO_THINK, /* says a text as a thought, token by token */
	DEMO_QUOTE, /* says the last quote (the prompt, or a line of a file), in a code span */
	DEMO_FILL, /* says as many tokens as the prompt asks for */
	DEMO_PAUSE, /* waits for the time of `number` tokens */
	DEMO_PLAN, /* shows the plan with the first `number` entries completed */
	DEMO_CALL, /* a tool call begins, with status `text` */
	/* the call's status is `text`, its output so far `extra`, or its result */
	DEMO_CALL_UPDATE,
	DEMO_ASK, /* asks for permission to do the call; waits */
	DEMO_READ, /* the call reads its file; waits */
	DEMO_WRITE, /* the call writes its new_text to its file; waits */
	DEMO_USAGE,
	DEMO_NOISE, /* writes a line on stdout that is not JSON, and lines on stderr */
	DEMO_HANG, /* waits until the turn is cancelled */
	DEMO_EXIT, /* exits with code `number` */
	DEMO_STOP, /* ends the turn with stop reason `text` */
	DEMO_FAIL, /* ends the turn with the error message `text` */
};

struct demo_step {
	enum demo_step_kind kind;
	unsigned when; /* the step is played only after one of these outcomes; 0: always */
	int number;
	const char *text;
	const char *extra;
	const struct demo_call *call;
	const struct demo_plan *plan;
};

enum {
	/* most scripts in a reply; further words of the prompt are ignored */
	DEMO_SCRIPTS_MAX = 64,
	DEMO_RATE_MAX = 1000000,
	DEMO_FILL_DEFAULT = 3000,
	DEMO_FILL_MAX = 1000000,
};

struct demo_reply {
	const struct demo_step *scripts[DEMO_SCRIPTS_MAX];
	size_t count;
	bool has_rate; /* the prompt sets the rate of its turn */
	long rate;
	long fill;
};

/** Chooses the scripts of a reply by the words of the prompt, in their order. Accepts any bytes. */
void demo_reply_compose(struct demo_reply *reply, const char *prompt, size_t len);

/* The scripts, which embed_scripts.py generates from scripts/(name).md. */

struct demo_word {
	const char *word; /* a word of a prompt */
	const struct demo_step *const *scripts; /* the scripts that it chooses; ended by NULL */
};

extern const struct demo_word demo_words[];
extern const size_t demo_word_count;
/* The reply to a prompt that contains none of the words. */
extern const struct demo_step *const demo_script_hello;

/* The texts of DEMO_FILL, in rotation; the last one is a paragraph, which can be cut anywhere. */
extern const char *const demo_fill_texts[];
extern const size_t demo_fill_text_count;

#endif
