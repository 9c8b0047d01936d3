/*
 * Completes a path that a person types: searches the directory that it names first, and then the
 * tree below it, level by level, so that close matches are found before distant ones if the tree is
 * too large to be searched.
 */
#include "complete_files.h"

#include "holdfast/agent_env.h"
#include "holdfast/beneath.h"
#include "holdfast/buffer.h"
#include "holdfast/utf8.h"
#include "ignore_rules.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES_MAX ((size_t)20000) /* directory entries that are looked at */
#define WALK_MS     300
#define IGNORE_MAX  ((size_t)64 * 1024) /* bytes of a .gitignore */

enum rank { RANK_HERE, RANK_BELOW, RANK_INSIDE, RANK_NONE };

struct found {
	char *path;
	enum rank rank;
	unsigned depth;
};

struct walk {
	const struct files_query *query;
	char *private_dir; /* resolved; NULL: none */
	char *top_place; /* the session's directory, resolved */
	int top;
	int base; /* the directory that the prefix names */
	char *base_place; /* the same, resolved */
	const char *base_path; /* the part of base_place below the top; "": the top */
	char *typed; /* the same part as it was typed, with its slash */
	const char *needle; /* what names contain, or paths if it has a slash */
	bool is_exact; /* the prefix names the base, rather than a path anywhere below the top */
	bool ignores; /* ignored files are left out */
	struct ignore_rules rules;
	/* found directories, relative to the base; the first ones have been searched */
	char **dirs;
	size_t dir_count;
	size_t entries;
	int64_t until_ms;
	struct found *found; /* sorted, with room for one more than the limit */
	size_t count;
	bool has_more;
};

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/** Returns the real path of an open file or directory; NULL if it is unknown. The caller frees. */
static char *place_of(int fd)
{
	char link[40];
	char path[PATH_MAX];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, sizeof(path) - 1);
	return len > 0 && path[0] == '/' ? xstrndup(path, (size_t)len) : NULL;
}

static char *join(const char *dir, const char *name)
{
	return xprintf("%s%s%s", dir, *dir && strcmp(dir, "/") != 0 ? "/" : "", name);
}

/** Whether a real path is below the session's directory, and not private to the server. */
static bool may_show(const struct walk *walk, const char *place)
{
	return place && path_is_within(place, walk->top_place) &&
	       !(walk->private_dir && path_is_private(place, walk->private_dir));
}

/* --- results --- */

static int compare(const struct found *a, const struct found *b)
{
	return a->rank != b->rank     ? (int)a->rank - (int)b->rank
	       : a->depth != b->depth ? (a->depth < b->depth ? -1 : 1)
				      : strcmp(a->path, b->path);
}

static void keep(struct walk *walk, struct found one)
{
	size_t from = 0;
	for (size_t to = walk->count; from < to;) {
		size_t middle = (from + to) / 2;
		if (compare(&walk->found[middle], &one) < 0) {
			from = middle + 1;
		} else {
			to = middle;
		}
	}
	memmove(walk->found + from + 1, walk->found + from, (walk->count - from) * sizeof(one));
	walk->found[from] = one;
	if (++walk->count > walk->query->most) {
		free(walk->found[--walk->count].path);
		walk->has_more = true;
	}
}

/**
 * Whether the last names of a path match a needle with slashes: "lib/net/http.c" matches "net/ht".
 */
static bool has_part(const char *path, const char *needle)
{
	size_t len = strlen(needle);
	size_t names = 0;
	for (const char *at = needle; *at; at++) {
		names += *at == '/';
	}
	const char *from = path + strlen(path);
	while (from > path && (from[-1] != '/' || names-- > 0)) {
		from--;
	}
	return strncasecmp(from, needle, len) == 0;
}

static enum rank rank_of(const struct walk *walk, const char *path, const char *name, bool is_here)
{
	const char *needle = walk->needle;
	if (strchr(needle, '/')) {
		return has_part(path, needle) ? RANK_BELOW : RANK_NONE;
	}
	if (strncasecmp(name, needle, strlen(needle)) == 0) {
		return is_here ? RANK_HERE : RANK_BELOW;
	}
	return strcmp(needle, ".") != 0 && strcasestr(name, needle) ? RANK_INSIDE : RANK_NONE;
}

/* --- searching --- */

/**
 * Returns DT_DIR, DT_REG, or DT_UNKNOWN for what is neither or must not be shown. A symlink counts
 * as what it leads to.
 */
static unsigned char kind_of(const struct walk *walk, DIR *dir, const struct dirent *entry)
{
	struct stat st;
	if (entry->d_type == DT_DIR || entry->d_type == DT_REG) {
		return entry->d_type;
	}
	int flags = AT_SYMLINK_NOFOLLOW;
	if (fstatat(dirfd(dir), entry->d_name, &st, flags) < 0) {
		return DT_UNKNOWN;
	}
	if (S_ISLNK(st.st_mode)) {
		char *above = place_of(dirfd(dir));
		char *path = above ? join(above, entry->d_name) : NULL;
		bool is_within = path && path_is_within(path, walk->top_place);
		const char *below = is_within ? path + strlen(walk->top_place) : "";
		int fd = *below ? open_beneath(walk->top, below + (*below == '/'), O_PATH) : -1;
		char *place = fd < 0 ? NULL : place_of(fd);
		bool is_shown = may_show(walk, place) && fstat(fd, &st) == 0;
		free(above);
		free(path);
		free(place);
		if (fd >= 0) {
			close(fd);
		}
		if (!is_shown) {
			return DT_UNKNOWN;
		}
	}
	return S_ISDIR(st.st_mode) ? DT_DIR : S_ISREG(st.st_mode) ? DT_REG : DT_UNKNOWN;
}

/** Reads the ignore rules of a directory below the top, if it has any. */
static void read_rules(struct walk *walk, const char *dir)
{
	struct stat st;
	char *path = join(dir, ".gitignore");
	int fd = open_by_steps(walk->top, path, O_RDONLY | O_NONBLOCK);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		struct buffer text = {0};
		buffer_reserve(&text, IGNORE_MAX);
		ssize_t n = read(fd, text.data, IGNORE_MAX);
		size_t len = n > 0 ? (size_t)n : 0;
		if (len == IGNORE_MAX) { /* a truncated pattern would be a different pattern */
			const char *end = memrchr(text.data, '\n', len);
			len = end ? (size_t)(end - text.data) : 0;
		}
		ignore_rules_read(&walk->rules, dir, text.data, len);
		buffer_finish(&text);
	}
	if (fd >= 0) {
		close(fd);
	}
	free(path);
}

static bool is_over(struct walk *walk)
{
	if (walk->entries >= ENTRIES_MAX || now_ms() >= walk->until_ms) {
		walk->has_more = true;
		return true;
	}
	return atomic_load(walk->query->is_unwanted);
}

/** Handles one entry of the directory `dir`, which is relative to the base. */
static void take(struct walk *walk, DIR *handle, const struct dirent *entry, const char *dir)
{
	const char *name = entry->d_name;
	bool is_here = !*dir && walk->is_exact;
	bool is_hidden = name[0] == '.' && !(is_here && walk->needle[0] == '.');
	if (is_hidden || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
		!utf8_is_valid(name, strlen(name))) {
		return;
	}
	char *path = join(dir, name);
	enum rank rank = rank_of(walk, path, name, is_here);
	bool descends = *walk->needle && name[0] != '.' &&
			(entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN);
	unsigned char kind =
		rank != RANK_NONE || descends ? kind_of(walk, handle, entry) : DT_UNKNOWN;
	char *below_top = join(walk->base_path, path);
	char *place = join(walk->base_place, path);
	if (kind == DT_UNKNOWN || !may_show(walk, place) ||
		(walk->ignores && ignore_rules_match(&walk->rules, below_top, kind == DT_DIR))) {
		rank = RANK_NONE;
		descends = false;
	}
	if (rank != RANK_NONE) {
		unsigned depth = 0;
		for (const char *at = path; *at; at++) {
			depth += *at == '/';
		}
		keep(walk, (struct found){
				   xprintf("%s%s%s", walk->typed, path, kind == DT_DIR ? "/" : ""),
				   rank, depth});
	}
	if (descends && kind == DT_DIR) {
		walk->dirs[walk->dir_count++] = path;
		path = NULL;
	}
	free(path);
	free(below_top);
	free(place);
}

static void look_into(struct walk *walk, const char *dir)
{
	int flags = O_RDONLY | O_DIRECTORY;
	int fd = open_by_steps(walk->base, dir, flags);
	DIR *handle = fd < 0 ? NULL : fdopendir(fd);
	if (!handle) {
		if (fd >= 0) {
			close(fd);
		}
		return;
	}
	if (walk->ignores && *dir) {
		char *below_top = join(walk->base_path, dir);
		read_rules(walk, below_top);
		free(below_top);
	}
	struct dirent *entry;
	while (!is_over(walk) && (entry = readdir(handle))) {
		walk->entries++;
		take(walk, handle, entry, dir);
	}
	closedir(handle);
}

/* --- the starting point --- */

static bool has_dots(const char *prefix)
{
	for (const char *at = prefix; *at; at += strcspn(at, "/"), at += strspn(at, "/")) {
		if (strcspn(at, "/") == 2 && memcmp(at, "..", 2) == 0 && at[2] == '/') {
			return true;
		}
	}
	return false;
}

/**
 * Reads the ignore rules from the top down to the base. If one of these directories is itself
 * ignored, no rules apply.
 */
static void read_outer_rules(struct walk *walk)
{
	read_rules(walk, "");
	walk->ignores = true;
	for (const char *at = walk->base_path; *at && walk->ignores;) {
		at += strcspn(at, "/");
		char *dir = xstrndup(walk->base_path, (size_t)(at - walk->base_path));
		walk->ignores = !ignore_rules_match(&walk->rules, dir, true);
		read_rules(walk, dir);
		free(dir);
		at += *at == '/';
	}
}

/**
 * Opens the directory that the prefix names. If it does not exist, the prefix is searched for from
 * the top on.
 */
static bool open_base(struct walk *walk)
{
	const char *prefix = walk->query->prefix;
	const char *slash = strrchr(prefix, '/');
	char *dir = slash ? xstrndup(prefix, (size_t)(slash - prefix)) : xstrdup(".");
	walk->needle = slash ? slash + 1 : prefix;
	walk->typed = xstrndup(prefix, (size_t)(walk->needle - prefix));
	walk->is_exact = true;
	walk->base = open_beneath(walk->top, dir, O_PATH | O_DIRECTORY);
	free(dir);
	if (walk->base < 0 && slash && slash[1]) {
		walk->base = open_by_steps(walk->top, ".", O_PATH | O_DIRECTORY);
		walk->needle = prefix;
		walk->typed[0] = '\0';
		walk->is_exact = false;
	}
	walk->base_place = walk->base < 0 ? NULL : place_of(walk->base);
	if (!may_show(walk, walk->base_place)) {
		return false;
	}
	walk->base_path = walk->base_place + strlen(walk->top_place);
	walk->base_path += *walk->base_path == '/';
	return true;
}

static bool open_top(struct walk *walk)
{
	const char *prefix = walk->query->prefix;
	const char *private_dir = walk->query->private_dir;
	walk->private_dir = private_dir && *private_dir ? realpath(private_dir, NULL) : NULL;
	walk->top = open(walk->query->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	walk->top_place = walk->top < 0 ? NULL : place_of(walk->top);
	bool is_unclear = private_dir && *private_dir && !walk->private_dir;
	return walk->top_place && !is_unclear && *prefix != '/' && !has_dots(prefix);
}

static void finish(struct walk *walk)
{
	for (size_t i = 0; i < walk->dir_count; i++) {
		free(walk->dirs[i]);
	}
	free(walk->dirs);
	free(walk->private_dir);
	free(walk->top_place);
	free(walk->base_place);
	free(walk->typed);
	ignore_rules_finish(&walk->rules);
	free(walk->found);
	if (walk->top >= 0) {
		close(walk->top);
	}
	if (walk->base >= 0) {
		close(walk->base);
	}
}

char **complete_files(const struct files_query *query, bool *ret_has_more)
{
	struct walk walk = {.query = query, .top = -1, .base = -1, .until_ms = now_ms() + WALK_MS};
	walk.found = xcalloc(query->most + 1, sizeof(*walk.found));
	if (open_top(&walk) && open_base(&walk)) {
		walk.dirs = xcalloc(ENTRIES_MAX + 1, sizeof(*walk.dirs));
		walk.dirs[walk.dir_count++] = xstrdup("");
		read_outer_rules(&walk);
		for (size_t at = 0; at < walk.dir_count && !is_over(&walk); at++) {
			look_into(&walk, walk.dirs[at]);
		}
	}
	char **paths = xcalloc(walk.count + 1, sizeof(*paths));
	for (size_t i = 0; i < walk.count; i++) {
		paths[i] = walk.found[i].path;
	}
	*ret_has_more = walk.has_more;
	finish(&walk);
	return paths;
}
