/* How text comes to the screens of those that watch while an agent writes it. */
#ifndef BENCH_SCREEN_H
#define BENCH_SCREEN_H

#include <stddef.h>
#include <stdint.h>

/**
 * One chunk of a paragraph every 10 ms to a session with observers, and a blank line at the end of
 * every 16th. Each observer has to get all text in order, and each block as it was written. Prints
 * chunk_… (publishing to the frame in which the text has grown so far) and block_… (to the event).
 */
void screen_run(unsigned port, size_t observers, uint64_t duration);

#endif
