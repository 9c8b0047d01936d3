#include "holdfast/agent_list.h"

#include "holdfast/agent_env.h"
#include "holdfast/buffer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define AGENTS_MAX  64
#define TITLE_MAX   ((size_t)100) /* bytes */
#define ENTRIES_MAX 256 /* entries of each list */

static void add_text(char ***list, const char *text)
{
	size_t count = 0;
	while (*list && (*list)[count]) {
		count++;
	}
	*list = xrealloc(*list, (count + 2) * sizeof(**list));
	(*list)[count] = xstrdup(text);
	(*list)[count + 1] = NULL;
}

/** The name of the program that a command runs, as far as that can be told. */
static char *name_program(const char *command)
{
	command += strspn(command, " \t\r\n");
	size_t len = strcspn(command, " \t\r\n");
	const char *slash = memrchr(command, '/', len);
	size_t skip = slash ? (size_t)(slash + 1 - command) : 0;
	size_t rest = len - skip < TITLE_MAX ? len - skip : TITLE_MAX;
	return rest ? xstrndup(command + skip, rest) : xstrdup("agent");
}

static void note_demo(struct agent_entry *entry)
{
	char *program = name_program(entry->command);
	entry->is_demo = strcmp(program, "holdfast-demo-agent") == 0;
	free(program);
}

/**
 * Resolves an existing directory; NULL if it does not exist. `~/` is the home directory. The caller
 * frees.
 */
static char *resolve_root(const char *text)
{
	struct stat st;
	const char *home = strncmp(text, "~/", 2) == 0 ? getenv("HOME") : NULL;
	char *path = xprintf("%s%s", home ? home : "", home ? text + 1 : text);
	char *root = realpath(path, NULL);
	free(path);
	if (root && (stat(root, &st) < 0 || !S_ISDIR(st.st_mode))) {
		free(root);
		root = NULL;
	}
	return root;
}

/* --- one agent of a file: each function returns NULL, or what is wrong (caller frees) --- */

/**
 * Reads a list of strings, which can be missing; `take` stores one of them or returns what is
 * wrong.
 */
static char *read_texts(const json_t *texts, const char *what,
	char *(*take)(struct agent_entry *entry, const char *text), struct agent_entry *entry)
{
	if (texts && (!json_is_array(texts) || json_array_size(texts) > ENTRIES_MAX)) {
		return xprintf("\"%s\" is not a list of at most %d strings", what, ENTRIES_MAX);
	}
	char *why = NULL;
	for (size_t i = 0; i < json_array_size(texts) && !why; i++) {
		const char *text = json_string_value(json_array_get(texts, i));
		why = text ? take(entry, text)
			   : xprintf("\"%s\" has an item that is not a string", what);
	}
	return why;
}

static char *take_env(struct agent_entry *entry, const char *text)
{
	const char *fault = agent_env_fault(text);
	if (fault) {
		return xprintf("\"env\": \"%s\": %s", text, fault);
	}
	add_text(&entry->env, text);
	return NULL;
}

static char *take_root(struct agent_entry *entry, const char *text)
{
	char *root = resolve_root(text);
	if (!root) {
		return xprintf("\"roots\": \"%s\" is not a directory", text);
	}
	add_text(&entry->roots, root);
	free(root);
	return NULL;
}

/** ACP requires lists such as `args` and `env`; here they can be omitted, and are added. */
static char *read_servers(struct agent_entry *entry, json_t *servers)
{
	if (servers && (!json_is_array(servers) || json_array_size(servers) > ENTRIES_MAX)) {
		return xstrdup("\"mcp_servers\" is not a list");
	}
	entry->mcp_servers = servers ? json_incref(servers) : json_array();
	for (size_t i = 0; i < json_array_size(servers); i++) {
		json_t *server = json_array_get(servers, i);
		bool runs = json_is_string(json_object_get(server, "command"));
		if (!json_string_length(json_object_get(server, "name")) ||
			(!runs && !json_is_string(json_object_get(server, "url")))) {
			return xstrdup(
				"each of \"mcp_servers\" has a \"name\", and a \"command\" or a \"url\"");
		}
		const char *const lists[] = {runs ? "args" : "headers", runs ? "env" : "headers"};
		for (size_t l = 0; l < 2; l++) {
			if (!json_object_get(server, lists[l])) {
				json_object_set_new(server, lists[l], json_array());
			}
		}
	}
	return NULL;
}

static bool is_name(const char *name)
{
	size_t len = name ? strlen(name) : 0;
	return len > 0 && len <= AGENT_NAME_MAX &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
		       len;
}

static char *find_stranger(const json_t *json)
{
	static const char *const known[] = {
		"name", "title", "command", "env", "roots", "mcp_servers"};
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)json, key, value) {
		bool is_known = false;
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
			is_known = is_known || strcmp(known[i], key) == 0;
		}
		if (!is_known) {
			return xprintf(
				"unknown member \"%s\"; an agent has name, title, command, env, roots and mcp_servers",
				key);
		}
	}
	return NULL;
}

static char *read_entry(struct agent_entry *entry, const json_t *json, const char *cwd)
{
	const char *title = json_string_value(json_object_get(json, "title"));
	const char *command = json_string_value(json_object_get(json, "command"));
	if (!command || !command[strspn(command, " \t\r\n")]) {
		return xstrdup("\"command\" is missing: the command that starts the agent");
	}
	if (json_object_get(json, "title") && (!title || !*title || strlen(title) > TITLE_MAX)) {
		return xprintf("\"title\" is not a string of 1 to %zu bytes", TITLE_MAX);
	}
	entry->title = xstrdup(title ? title : entry->name);
	entry->command = xstrdup(command);
	note_demo(entry);
	char *why = find_stranger(json);
	why = why ? why : read_texts(json_object_get(json, "env"), "env", take_env, entry);
	why = why ? why : read_texts(json_object_get(json, "roots"), "roots", take_root, entry);
	why = why ? why : read_servers(entry, json_object_get(json, "mcp_servers"));
	if (!why && !entry->roots) {
		add_text(&entry->roots, cwd);
	}
	return why;
}

/* --- the list --- */

static bool has_name(const struct agent_list *list, const char *name)
{
	size_t i = 0;
	while (i < list->count && strcmp(list->entries[i].name, name) != 0) {
		i++;
	}
	return i < list->count;
}

static char *read_all(struct agent_list *list, const json_t *json, const char *cwd)
{
	const json_t *agents = json_object_get(json, "agents");
	size_t count = json_array_size(agents);
	if (json_object_size(json) != 1 || !json_is_array(agents) || !count || count > AGENTS_MAX) {
		return xprintf("it is not {\"agents\": [...]} with 1 to %d agents", AGENTS_MAX);
	}
	list->entries = xcalloc(count, sizeof(*list->entries));
	char *why = NULL;
	for (size_t i = 0; i < count && !why; i++) {
		const json_t *one = json_array_get(agents, i);
		const char *name = json_string_value(json_object_get(one, "name"));
		if (!is_name(name)) {
			return xprintf("agent %zu: \"name\" is not 1 to %zu of A-Z a-z 0-9 . _ -",
				i + 1, AGENT_NAME_MAX);
		}
		if (has_name(list, name)) {
			return xprintf("two agents have the name \"%s\"", name);
		}
		struct agent_entry *entry = &list->entries[list->count++];
		entry->name = xstrdup(name);
		char *fault = read_entry(entry, one, cwd);
		why = fault ? xprintf("agent \"%s\": %s", name, fault) : NULL;
		free(fault);
	}
	return why;
}

int agent_list_read(
	struct agent_list *list, const char *text, size_t len, const char *cwd, char **ret_why)
{
	json_error_t error;
	json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	*list = (struct agent_list){.is_named = true};
	*ret_why =
		json ? read_all(list, json, cwd) : xprintf("line %d: %s", error.line, error.text);
	json_decref(json);
	if (*ret_why) {
		agent_list_finish(list);
		return -1;
	}
	return 0;
}

void agent_list_make(struct agent_list *list, const char *command, const char *cwd)
{
	*list = (struct agent_list){.entries = xcalloc(1, sizeof(*list->entries)), .count = 1};
	struct agent_entry *entry = list->entries;
	entry->command = xstrdup(command);
	entry->name = name_program(command);
	entry->title = xstrdup(entry->name);
	entry->mcp_servers = json_array();
	add_text(&entry->roots, cwd);
	note_demo(entry);
}

void agent_list_finish(struct agent_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct agent_entry *entry = &list->entries[i];
		free(entry->name);
		free(entry->title);
		free(entry->command);
		agent_env_free(entry->env);
		agent_env_free(entry->roots);
		json_decref(entry->mcp_servers);
	}
	free(list->entries);
	*list = (struct agent_list){0};
}

char **agent_entry_env(const struct agent_entry *entry, char *const *from, char *const *common)
{
	size_t count = 0;
	char **all = NULL;
	char *const *const lists[] = {common, entry->env};
	for (size_t i = 0; i < 2; i++) {
		for (char *const *at = lists[i]; at && *at; at++) {
			all = xrealloc(all, (count + 2) * sizeof(*all));
			all[count++] = *at;
			all[count] = NULL;
		}
	}
	char **env = agent_env_make(from, all);
	free(all);
	return env;
}
