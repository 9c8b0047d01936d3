#include "agent_dirs.h"

#include "complete_files.h"
#include "holdfast/agent_env.h"
#include "holdfast/beneath.h"
#include "holdfast/list.h"
#include "holdfast/utf8.h"
#include "holdfast/worker.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOBS_MAX  64 /* jobs that wait */
#define NAMES_MAX 20000 /* names read from one directory */

struct agent_dirs_job {
	struct list link;
	enum agent_dirs_kind kind;
	char **roots;
	char *text;
	size_t most; /* of AGENT_DIRS_FILES */
	bool is_working;
	atomic_bool is_unwanted;
	struct agent_dirs *dirs;
	struct agent_dirs_found found;
	agent_dirs_done *done; /* NULL: cancelled */
	void *arg;
};

struct agent_dirs {
	struct worker *worker;
	const char *private_dir; /* NULL: none */
	struct list jobs; /* the first one is being worked on */
	size_t count;
	bool is_closing;
};

/* --- on the thread --- */

static bool is_below(char *const *roots, const char *path)
{
	for (; *roots; roots++) {
		if (path_is_within(path, *roots)) {
			return true;
		}
	}
	return false;
}

static char *check(char *const *roots, const char *path)
{
	struct stat st;
	char *real = *path == '/' ? realpath(path, NULL) : NULL;
	if (real && is_below(roots, real) && utf8_is_valid(real, strlen(real)) &&
		stat(real, &st) == 0 && S_ISDIR(st.st_mode)) {
		return real;
	}
	free(real);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct names {
	char **paths; /* has room for one more than the limit */
	size_t count;
	bool has_more;
};

/** Adds a path; beyond AGENT_DIRS_MAX only the first ones in sorted order are kept. */
static void keep(struct names *names, const char *dir, const char *name)
{
	if (!utf8_is_valid(name, strlen(name))) {
		return;
	}
	names->paths[names->count++] =
		xprintf("%s%s%s", dir, *dir && strcmp(dir, "/") != 0 ? "/" : "", name);
	if (names->count > AGENT_DIRS_MAX) {
		qsort(names->paths, names->count, sizeof(*names->paths), compare);
		free(names->paths[--names->count]);
		names->has_more = true;
	}
}

static bool is_directory(DIR *dir, const struct dirent *entry)
{
	struct stat st;
	return entry->d_type == DT_DIR ||
	       (entry->d_type == DT_UNKNOWN &&
		       fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		       S_ISDIR(st.st_mode));
}

/** Lists the directories in `path`, which is `root` or below it, whose names begin with `begin`. */
static void list_in(const char *root, const char *path, const char *begin, struct names *names)
{
	int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *rest = path + strlen(root);
	rest += *rest == '/';
	int fd = top < 0 ? -1 : open_beneath(top, *rest ? rest : ".", O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	size_t len = strlen(begin);
	size_t n = 0;
	for (; dir && n < NAMES_MAX && (entry = readdir(dir)); n++) {
		const char *name = entry->d_name;
		bool is_hidden = name[0] == '.' && (*begin != '.' || strcmp(name, ".") == 0 ||
							   strcmp(name, "..") == 0);
		if (!is_hidden && strncmp(name, begin, len) == 0 && is_directory(dir, entry)) {
			keep(names, path, name);
		}
	}
	names->has_more = names->has_more || n == NAMES_MAX;
	if (dir) {
		closedir(dir);
	} else if (fd >= 0) {
		close(fd);
	}
	if (top >= 0) {
		close(top);
	}
}

static void list_dirs(char *const *roots, const char *prefix, struct names *names)
{
	const char *slash = strrchr(prefix, '/');
	char *above =
		slash ? xstrndup(prefix, slash == prefix ? 1 : (size_t)(slash - prefix)) : NULL;
	char *dir = above ? check(roots, above) : NULL;
	for (char *const *root = roots; *root; root++) {
		if (strncmp(*root, prefix, strlen(prefix)) == 0) {
			keep(names, "", *root);
		}
	}
	for (char *const *root = roots; dir && *root; root++) {
		if (path_is_within(dir, *root)) {
			list_in(*root, dir, slash + 1, names);
			break;
		}
	}
	free(above);
	free(dir);
	qsort(names->paths, names->count, sizeof(*names->paths), compare);
	names->paths[names->count] = NULL;
}

static struct agent_dirs_job *first(const struct agent_dirs *dirs)
{
	return list_entry(dirs->jobs.next, struct agent_dirs_job, link);
}

static void work(void *arg)
{
	struct agent_dirs_job *job = first(arg);
	if (job->kind == AGENT_DIRS_CHECK) {
		job->found.path = check(job->roots, job->text);
		return;
	}
	if (job->kind == AGENT_DIRS_FILES) {
		const struct files_query query = {.dir = job->roots[0],
			.private_dir = job->dirs->private_dir,
			.prefix = job->text,
			.most = job->most,
			.is_unwanted = &job->is_unwanted};
		job->found.paths = complete_files(&query, &job->found.has_more);
		return;
	}
	struct names names = {.paths = xcalloc(AGENT_DIRS_MAX + 2, sizeof(*names.paths))};
	list_dirs(job->roots, job->text, &names);
	job->found.paths = names.paths;
	job->found.has_more = names.has_more;
}

/* --- on the loop --- */

static void drop(struct agent_dirs_job *job)
{
	list_remove(&job->link);
	job->dirs->count--;
	agent_env_free(job->roots);
	agent_env_free(job->found.paths);
	free(job->found.path);
	free(job->text);
	free(job);
}

static void begin_next(struct agent_dirs *dirs)
{
	if (!list_empty(&dirs->jobs)) {
		first(dirs)->is_working = true;
		worker_start(dirs->worker);
	} else if (dirs->is_closing) {
		worker_destroy(dirs->worker);
		dirs->worker = NULL;
	}
}

static void handle_done(void *arg)
{
	struct agent_dirs *dirs = arg;
	struct agent_dirs_job *job = first(dirs);
	if (job->done) {
		job->done(job->arg, &job->found);
	}
	drop(job);
	begin_next(dirs);
}

struct agent_dirs *agent_dirs_create(uv_loop_t *loop, const char *private_dir)
{
	struct agent_dirs *dirs = xcalloc(1, sizeof(*dirs));
	dirs->private_dir = private_dir;
	list_init(&dirs->jobs);
	dirs->worker = worker_create(loop, work, handle_done, dirs);
	return dirs;
}

void agent_dirs_close(struct agent_dirs *dirs)
{
	if (dirs->is_closing) {
		return;
	}
	dirs->is_closing = true;
	if (list_empty(&dirs->jobs)) {
		begin_next(dirs);
	}
}

void agent_dirs_free(struct agent_dirs *dirs)
{
	free(dirs);
}

struct agent_dirs_job *agent_dirs_query(struct agent_dirs *dirs,
	const struct agent_dirs_query *query, agent_dirs_done *done, void *arg)
{
	if (dirs->is_closing || dirs->count >= JOBS_MAX) {
		return NULL;
	}
	struct agent_dirs_job *job = xcalloc(1, sizeof(*job));
	size_t count = 0;
	while (query->roots[count]) {
		count++;
	}
	job->roots = xcalloc(count + 1, sizeof(*job->roots));
	for (size_t i = 0; i < count; i++) {
		job->roots[i] = xstrdup(query->roots[i]);
	}
	job->text = xstrdup(query->text);
	job->kind = query->kind;
	job->most = query->most < FILES_MAX ? query->most : FILES_MAX;
	job->dirs = dirs;
	job->done = done;
	job->arg = arg;
	list_append(&dirs->jobs, &job->link);
	if (dirs->count++ == 0) {
		begin_next(dirs);
	}
	return job;
}

void agent_dirs_cancel(struct agent_dirs_job *job)
{
	job->done = NULL;
	atomic_store(&job->is_unwanted, true);
	if (!job->is_working) {
		drop(job);
	}
}
