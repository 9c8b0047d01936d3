/* Texts as the tests of the stream cut and show them. */
#ifndef HOLDFAST_TESTS_TEXT_H
#define HOLDFAST_TESTS_TEXT_H

#include <stddef.h>

/** Where the character after the one at `at` begins; the text is valid UTF-8. */
size_t text_next(const char *text, size_t len, size_t at);
/** Fails the test, and shows the text in one line. */
void text_fail(const char *what, const char *text, size_t len, size_t at);

#endif
