/*
 * Keeps the events.html of logs up to date (html_file.h): the renderer's thread renders what has
 * been written, in portions, between the pages that clients wait for.
 */
#ifndef HOLDFAST_HTML_FOLLOW_H
#define HOLDFAST_HTML_FOLLOW_H

#include "holdfast/list.h"

#include <stdbool.h>
#include <stdint.h>

struct html_follower;
struct session_log;
struct store;

/** What is known of the events.html of a log. */
struct html_log {
	struct list link; /* html_follower.due: it is behind */
	uint64_t next; /* it has the events before this one, as far as is known */
	bool is_anew; /* it was begun anew, and is not complete yet */
	bool is_left; /* it is given up: it cannot be written, or its log not read */
};

struct html_follower *html_follower_create(struct store *store);
/** No work may be in progress. */
void html_follower_destroy(struct html_follower *follower);
/** A log has grown: brings its events.html up to date, after a delay unless `now`. */
void html_follow(struct session_log *log, bool now);

#endif
