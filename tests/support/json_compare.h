/* json_spans_read() beside jansson: both have to read the same in a text, or both nothing. */
#ifndef HOLDFAST_TESTS_JSON_COMPARE_H
#define HOLDFAST_TESTS_JSON_COMPARE_H

#include <stddef.h>

/** NULL if they agree, else the words for what differs. */
const char *json_compare(const char *text, size_t len);

#endif
