/*
 * A reader of HTML that knows only what the renderer may write: a fixed list of elements, each with
 * its attributes in a fixed order and its place among the others, text without a raw `<`, `>`, `"`
 * or `&`, addresses that a browser takes for relative, http, https or mailto ones, UTF-8 without
 * NUL. It shares no code with the renderer.
 */
#ifndef HOLDFAST_TESTS_HTML_CHECK_H
#define HOLDFAST_TESTS_HTML_CHECK_H

#include <stddef.h>

/** Returns NULL, or what is wrong with the HTML, and where. */
const char *html_check(const char *html, size_t len, size_t *ret_at);

#endif
