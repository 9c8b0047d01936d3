/* A table of markdown on a terminal page: columns as wide as they need, less where that is too wide. */
#ifndef HOLDFAST_TERMINAL_TABLE_H
#define HOLDFAST_TERMINAL_TABLE_H

#include "holdfast/terminal_page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct terminal_table;

/** `alignments`: a letter for each column, l, c, r or none; copied. */
struct terminal_table *terminal_table_create(size_t columns, const uint8_t *alignments);
void terminal_table_add_row(struct terminal_table *table, bool is_header);
/** The next cell of that row, to be filled; lent until the next call. */
struct terminal_text *terminal_table_add_cell(struct terminal_table *table);
void terminal_table_write(const struct terminal_table *table, struct terminal_page *page);
void terminal_table_destroy(struct terminal_table *table);

#endif
