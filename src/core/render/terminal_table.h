/*
 * Lays out a markdown table on a terminal page, with columns as wide as they need, or narrower if
 * that does not fit.
 */
#ifndef HOLDFAST_TERMINAL_TABLE_H
#define HOLDFAST_TERMINAL_TABLE_H

#include "holdfast/terminal_page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct terminal_table;

/** `alignments` has a letter for each column: l, c, r or 0 for none; copied. */
struct terminal_table *terminal_table_create(size_t columns, const uint8_t *alignments);
void terminal_table_add_row(struct terminal_table *table, bool is_header);
/** Adds a cell to the last row and returns its text, to be filled in; valid until the next call. */
struct terminal_text *terminal_table_add_cell(struct terminal_table *table);
void terminal_table_write(const struct terminal_table *table, struct terminal_page *page);
void terminal_table_destroy(struct terminal_table *table);

#endif
