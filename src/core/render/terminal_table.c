#include "terminal_table.h"

#include <stdlib.h>
#include <string.h>

#define SEPARATOR       " │ "
#define SEPARATOR_WIDTH 3

struct row {
	bool is_header;
	size_t first; /* index of its first cell */
	size_t count;
};

struct terminal_table {
	size_t columns;
	uint8_t *alignments;
	struct row *rows;
	size_t row_count;
	struct terminal_text *cells;
	size_t cell_count;
};

struct terminal_table *terminal_table_create(size_t columns, const uint8_t *alignments)
{
	struct terminal_table *table = xcalloc(1, sizeof(*table));
	table->columns = columns;
	table->alignments = xcalloc(columns + 1, 1);
	memcpy(table->alignments, alignments, columns);
	return table;
}

/** Doubles the capacity when `count` is a power of two. */
static void *grow(void *list, size_t count, size_t size)
{
	bool is_full = (count & (count - 1)) == 0;
	return is_full ? xrealloc(list, (count ? 2 * count : 1) * size) : list;
}

void terminal_table_add_row(struct terminal_table *table, bool is_header)
{
	table->rows = grow(table->rows, table->row_count, sizeof(*table->rows));
	table->rows[table->row_count++] =
		(struct row){.is_header = is_header, .first = table->cell_count};
}

struct terminal_text *terminal_table_add_cell(struct terminal_table *table)
{
	table->cells = grow(table->cells, table->cell_count, sizeof(*table->cells));
	table->rows[table->row_count - 1].count++;
	table->cells[table->cell_count] = (struct terminal_text){0};
	return &table->cells[table->cell_count++];
}

void terminal_table_destroy(struct terminal_table *table)
{
	while (table->cell_count) {
		terminal_text_finish(&table->cells[--table->cell_count]);
	}
	free(table->cells);
	free(table->rows);
	free(table->alignments);
	free(table);
}

/** Computes the width that each column needs, at most `most`. */
static void measure(const struct terminal_table *table, size_t most, size_t *widths)
{
	for (size_t r = 0; r < table->row_count; r++) {
		const struct row *row = &table->rows[r];
		for (size_t c = 0; c < row->count && c < table->columns; c++) {
			size_t width = terminal_text_width(&table->cells[row->first + c]);
			width = width < most ? width : most;
			widths[c] = width > widths[c] ? width : widths[c];
		}
	}
}

/** Narrows the widest columns until all fit. */
static void shrink(size_t *widths, size_t columns, size_t room)
{
	size_t sum = 0;
	for (size_t c = 0; c < columns; c++) {
		widths[c] = widths[c] ? widths[c] : 1;
		sum += widths[c];
	}
	while (sum > room) {
		size_t widest = 0;
		for (size_t c = 1; c < columns; c++) {
			widest = widths[c] > widths[widest] ? c : widest;
		}
		widths[widest]--;
		sum--;
	}
}

static void pad(struct terminal_text *line, size_t count)
{
	while (count--) {
		terminal_text_put(line, 0, " ");
	}
}

static void add_cells(struct terminal_text *line, const struct terminal_text *from,
	const struct terminal_line *part)
{
	for (size_t i = 0; i < part->count; i++) {
		const struct terminal_cell *cell = &from->cells[part->at + i];
		terminal_text_add(line, cell->style, cell->bytes, cell->len);
	}
}

/**
 * Builds the next line of a row from the next line of each cell. Returns false if no cell has one.
 */
static bool take_line(const struct terminal_table *table, const struct row *row,
	const size_t *widths, size_t *places, struct terminal_text *line)
{
	static const struct terminal_text none = {0};
	bool has_any = false;
	for (size_t c = 0; c < table->columns; c++) {
		struct terminal_line part = {0};
		const struct terminal_text *cell =
			c < row->count ? &table->cells[row->first + c] : &none;
		if (terminal_text_next(cell, widths[c], TERMINAL_WORDS, &places[c], &part)) {
			has_any = true;
		}
		size_t left = widths[c] > part.width ? widths[c] - part.width : 0;
		size_t in_front = table->alignments[c] == 'r'   ? left
				  : table->alignments[c] == 'c' ? left / 2
								: 0;
		terminal_text_put(line, TERMINAL_DIM, c ? SEPARATOR : NULL);
		pad(line, in_front);
		add_cells(line, cell, &part);
		pad(line, left - in_front);
	}
	return has_any;
}

static void write_rule(
	const struct terminal_table *table, const size_t *widths, struct terminal_page *page)
{
	struct terminal_text line = {0};
	for (size_t c = 0; c < table->columns; c++) {
		terminal_text_put(&line, TERMINAL_DIM, c ? "─┼─" : NULL);
		for (size_t i = 0; i < widths[c]; i++) {
			terminal_text_put(&line, TERMINAL_DIM, "─");
		}
	}
	terminal_page_text(page, &line, TERMINAL_CHARACTERS);
	terminal_text_finish(&line);
}

static void write_row(const struct terminal_table *table, const struct row *row,
	const size_t *widths, struct terminal_page *page)
{
	struct terminal_text line = {0};
	size_t *places = xcalloc(table->columns + 1, sizeof(*places));
	while (take_line(table, row, widths, places, &line)) {
		terminal_page_text(page, &line, TERMINAL_CHARACTERS);
	}
	free(places);
	terminal_text_finish(&line);
}

/** Writes each row as plain text, for a table with too many columns. */
static void write_as_text(const struct terminal_table *table, struct terminal_page *page)
{
	for (size_t r = 0; r < table->row_count; r++) {
		struct terminal_text line = {0};
		const struct row *row = &table->rows[r];
		for (size_t c = 0; c < row->count; c++) {
			const struct terminal_text *cell = &table->cells[row->first + c];
			terminal_text_put(&line, TERMINAL_DIM, c ? SEPARATOR : NULL);
			add_cells(&line, cell, &(struct terminal_line){.count = cell->count});
		}
		terminal_page_text(page, &line, TERMINAL_WORDS);
		terminal_text_finish(&line);
	}
}

void terminal_table_write(const struct terminal_table *table, struct terminal_page *page)
{
	size_t room = terminal_page_room(page);
	size_t between = SEPARATOR_WIDTH * (table->columns ? table->columns - 1 : 0);
	/* Requires room in each column for a wide character and one more. */
	if (!table->columns || between + 3 * table->columns > room) {
		write_as_text(table, page);
		return;
	}
	size_t *widths = xcalloc(table->columns, sizeof(*widths));
	measure(table, room, widths);
	shrink(widths, table->columns, room - between);
	for (size_t r = 0; r < table->row_count; r++) {
		write_row(table, &table->rows[r], widths, page);
		if (table->rows[r].is_header) {
			write_rule(table, widths, page);
		}
	}
	free(widths);
}
