/* The options of serve for the level and the format of the log, at the start and after SIGHUP. */
#include "config_file.h"
#include "config_internal.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <stdlib.h>

const char *config_set_log_level(const struct option_row *row, void *place, const char *value)
{
	const char *fault = option_set_word(row, place, value);
	if (!fault) {
		diag_set_level(*(enum diag_level *)place);
	}
	return fault;
}

const char *config_set_log_format(const struct option_row *row, void *place, const char *value)
{
	int word = 0;
	const char *fault = option_set_word(row, &word, value);
	diag_set_json(word == 1);
	return fault;
}

int config_read_log_level(const struct config *config, enum diag_level *ret_level)
{
	struct config_table table;
	struct config_file file;
	size_t at = 0;
	config_table_make(&table);
	size_t option = config_table_find(&table, "log-level");
	const struct option_row *row = table.rows[option];
	const char *env = getenv(row->option.env);
	if (config->is_log_level_given || (env && *env) || !config->file->path) {
		return -ENOENT;
	}
	*ret_level = config->log_level;
	int r = config_file_read(config->file->path, &table, &file);
	if (r == 0) {
		const struct config_line *line = config_file_next(&file, option, &at);
		const char *level = line ? line->value : row->option.fallback;
		r = option_set_word(row, ret_level, level)
			    ? options_refuse(&row->option, level, NULL)
			    : 0;
	}
	config_file_finish(&file);
	return r == -ENOENT ? -EIO : r; /* -ENOENT is for another source */
}
