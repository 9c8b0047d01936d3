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

int config_take_path(int option, char ***list, const char *text)
{
	char *path = realpath(text, NULL);
	if (!path) {
		return options_refuse(
			&config_options[option], text, "there is no such file or directory");
	}
	list_add_text(list, path);
	free(path);
	return 0;
}

int config_parse_dir(int option, const char *text, char **ret_path)
{
	struct stat st;
	*ret_path = realpath(text, NULL);
	if (!*ret_path || stat(*ret_path, &st) < 0 || !S_ISDIR(st.st_mode)) {
		return options_refuse(&config_options[option], text, "there is no such directory");
	}
	return 0;
}

int config_parse_highlight(const char *text, char **ret_path)
{
	bool is_default = strcmp(text, config_options[HIGHLIGHT].fallback) == 0;
	if (!*text || (is_default && access(text, R_OK) < 0)) {
		return 0;
	}
	return config_parse_dir(HIGHLIGHT, text, ret_path);
}

char *config_installed_page(void)
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
