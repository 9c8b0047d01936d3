/* The options of serve that name files and directories. */
#include "config_internal.h"
#include "config_trust.h"

#include "holdfast/buffer.h"
#include "holdfast/config.h"
#include "holdfast/options.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *absolute_path(const char *path)
{
	char *cwd = *path == '/' ? NULL : getcwd(NULL, 0);
	char *absolute = xprintf("%s%s%s", cwd ? cwd : "", cwd ? "/" : "", path);
	free(cwd);
	return absolute;
}

const char *config_add_path(const struct option_row *row, void *place, const char *text)
{
	char *path = realpath(text, NULL);
	if (!path) {
		return "there is no such file or directory";
	}
	list_add_text(place, path);
	free(path);
	return NULL;
}

const char *config_set_dir(const struct option_row *row, void *place, const char *text)
{
	struct stat st;
	char *path = realpath(text, NULL);
	free(*(char **)place);
	*(char **)place = path;
	return !path || stat(path, &st) < 0 || !S_ISDIR(st.st_mode) ? "there is no such directory"
								    : NULL;
}

const char *config_set_highlight(const struct option_row *row, void *place, const char *text)
{
	bool is_default = strcmp(text, row->option.fallback) == 0;
	if (!*text || (is_default && access(text, R_OK) < 0)) {
		return NULL;
	}
	return config_set_dir(row, place, text);
}

/** Returns the page that was installed with this program (caller frees), or NULL. */
static char *find_installed_page(void)
{
	char *self = realpath("/proc/self/exe", NULL);
	char *slash = self ? strrchr(self, '/') : NULL;
	struct buffer path = {0};
	if (slash && *HOLDFAST_WEB_DIR != '/') {
		buffer_append(&path, self, (size_t)(slash + 1 - self));
	}
	buffer_append_str(&path, HOLDFAST_WEB_DIR);
	char *page = realpath(buffer_cstr(&path), NULL);
	buffer_finish(&path);
	free(self);
	return page;
}

const char *config_set_page(const struct option_row *row, void *place, const char *text)
{
	if (text == row->option.fallback) {
		*(char **)place = find_installed_page();
	}
	return *text && text != row->option.fallback ? config_set_dir(row, place, text) : NULL;
}
