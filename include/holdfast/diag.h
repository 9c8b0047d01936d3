/*
 * Holdfast's own messages, on stderr: `holdfast: LEVEL: text`. ("log" always means the event log.)
 * A module that returns an error does not print it; relay/, net/ and agent/ print, once.
 * The level is the program's only static state.
 */
#ifndef HOLDFAST_DIAG_H
#define HOLDFAST_DIAG_H

enum diag_level { DIAG_SILENT = -1, DIAG_ERROR, DIAG_WARN, DIAG_INFO, DIAG_DEBUG };

/** Messages above this level are dropped (DIAG_SILENT: all of them); DIAG_INFO at start. */
void diag_set_level(enum diag_level level);
/** Writes one line; name the session, seq and client it speaks of, never a pointer. */
__attribute__((format(printf, 2, 3))) void diag(enum diag_level level, const char *fmt, ...);

#endif
