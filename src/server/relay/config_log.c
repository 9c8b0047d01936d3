/* The options of serve for the level and the format of the log, at the start and after SIGHUP. */
#include "config_file.h"
#include "config_internal.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <stdlib.h>

static int parse_level(const char *text)
{
	return config_parse_word(
		LOG_LEVEL, text, (const char *const[]){"error", "warn", "info", "debug", NULL});
}

int config_take_log(struct config *config, const char *level, const char *format)
{
	int r = parse_level(level);
	if (r < 0) {
		return r;
	}
	config->log_level = (enum diag_level)r;
	diag_set_level(config->log_level);
	r = config_parse_word(LOG_FORMAT, format, (const char *const[]){"text", "json", NULL});
	diag_set_json(r == 1);
	return r < 0 ? r : 0;
}

int config_read_log_level(const struct config *config, enum diag_level *ret_level)
{
	struct config_file file;
	size_t at = 0;
	const char *env = getenv(config_options[LOG_LEVEL].env);
	if (config->is_log_level_given || (env && *env) || !config->file->path) {
		return -ENOENT;
	}
	int r = config_file_read(config->file->path, config_options, config_may_repeat, &file);
	if (r < 0) {
		config_file_finish(&file);
		return r == -ENOENT ? -EIO : r; /* -ENOENT is for another source */
	}
	const struct config_line *line = config_file_next(&file, LOG_LEVEL, &at);
	r = parse_level(line ? line->value : config_options[LOG_LEVEL].fallback);
	config_file_finish(&file);
	*ret_level = r < 0 ? config->log_level : (enum diag_level)r;
	return r < 0 ? r : 0;
}
