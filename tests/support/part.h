/*
 * A part of a long series of cases, so that a run of all tests takes minutes: HOLDFAST_PART=3/8 is
 * every eighth case, beginning with the third. Without it: all of them. scripts/test takes the part
 * that tests/green names, so that each landing tries another one.
 */
#ifndef HOLDFAST_TESTS_PART_H
#define HOLDFAST_TESTS_PART_H

#include <stdbool.h>

/** Whether the next case of a series is in the part; call it once a case, in one thread. */
bool part_has_next(void);

/** Whether all cases run: then each outcome that some of them must have can be expected. */
bool part_is_whole(void);

#endif
