/* The folders of damaged sessions in set-aside/: <id>.<number>. */
#include "repair.h"

#include "holdfast/diag.h"
#include "holdfast/requests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/** Splits <id>.<number>. Returns false if the name has another form. */
static bool parse(const char *name, struct set_aside *ret)
{
	const char *dot = strrchr(name, '.');
	size_t digits = dot ? strspn(dot + 1, "0123456789") : 0;
	if (!dot || !digits || digits > 9 || dot[1 + digits] ||
		(size_t)(dot - name) >= sizeof(ret->id)) {
		return false;
	}
	memcpy(ret->id, name, (size_t)(dot - name));
	ret->id[dot - name] = '\0';
	ret->number = strtoul(dot + 1, NULL, 10);
	return session_id_is_valid(ret->id, strlen(ret->id));
}

static bool is_folder(int dir_fd, const char *parent, const char *name)
{
	char path[320];
	struct stat st;
	snprintf(path, sizeof(path), "%s/%s", parent, name);
	return fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/** Orders by id, the newest (highest number) first. */
static int compare(const void *a, const void *b)
{
	const struct set_aside *one = a;
	const struct set_aside *other = b;
	int r = strcmp(one->id, other->id);
	return r ? r : (one->number < other->number) - (one->number > other->number);
}

int set_aside_list(int dir_fd, struct set_aside **ret, size_t *ret_count)
{
	char **names;
	size_t count;
	*ret = NULL;
	*ret_count = 0;
	int r = disk_list(dir_fd, "set-aside", NULL, &names, &count);
	if (r < 0) {
		return r == -ENOENT ? 0 : r;
	}
	struct set_aside *asides = xcalloc(count + 1, sizeof(*asides));
	size_t found = 0;
	for (size_t i = 0; i < count; i++) {
		struct set_aside *aside = &asides[found];
		if (parse(names[i], aside) && is_folder(dir_fd, "set-aside", names[i])) {
			aside->has_session = is_folder(dir_fd, "sessions", aside->id);
			found++;
		}
	}
	disk_list_free(names, count);
	qsort(asides, found, sizeof(*asides), compare);
	for (size_t i = 1; i < found; i++) {
		asides[i].is_older = strcmp(asides[i].id, asides[i - 1].id) == 0;
	}
	*ret = asides;
	*ret_count = found;
	return 0;
}

void set_aside_note_all(struct store *store)
{
	struct set_aside *asides;
	size_t count;
	if (set_aside_list(store->dir_fd, &asides, &count) == 0) {
		for (size_t i = 0; i < count; i++) {
			const char *id = asides[i].id;
			if (!asides[i].has_session &&
				!log_table_get(&store->by_id, id, strlen(id))) {
				aside_add(store, id, 0, 0);
			}
		}
	}
	free(asides);
}

void repair_keep_file(struct store *store, const char *id, int dir_fd, const char *name)
{
	char to[320];
	unsigned number = 0;
	int r;
	do {
		snprintf(to, sizeof(to), "set-aside/%s.%s.%u", id, name, ++number);
		r = linkat(dir_fd, name, store->dir_fd, to, 0);
	} while (r < 0 && errno == EEXIST);
	if (r < 0 && errno != ENOENT) {
		diag(DIAG_WARN, "session %s: the damaged %s cannot be kept: %s", id, name,
			strerror(errno));
	}
}

int repair_put_log(struct store *store, const char *id, int dir_fd, const char *fresh)
{
	repair_keep_file(store, id, dir_fd, "events.jsonl");
	int r = disk_sync(store->dir_fd, "set-aside", O_RDONLY | O_DIRECTORY);
	return r == 0 && disk->renameat(dir_fd, fresh, dir_fd, "events.jsonl") < 0 ? -errno : r;
}

int repair_drop_log(struct store *store, const char *id)
{
	int dir_fd = disk_open_dir(embedded_of(store)->sessions_fd, id);
	if (dir_fd < 0) {
		return -errno;
	}
	repair_keep_file(store, id, dir_fd, "events.jsonl");
	int r = disk->unlinkat(dir_fd, "events.jsonl", 0) < 0 && errno != ENOENT ? -errno : 0;
	close(dir_fd);
	return r;
}

static int move_to_trash(struct store *store, const char *from, const char *to)
{
	remove_folder(store->dir_fd, to);
	int r = disk->renameat(store->dir_fd, from, store->dir_fd, to) < 0 ? -errno : 0;
	return r == -ENOENT ? 0 : r;
}

/* What is in trash/ goes with the next start. */
int set_aside_delete(struct store *store, const struct aside *session)
{
	struct embedded_store *emb = embedded_of(store);
	struct set_aside *asides = NULL;
	size_t count = 0;
	char from[320];
	char to[320];
	if (emb->found_segment && emb->journal.oldest_segment <= emb->found_segment) {
		return -EAGAIN; /* the journal may make it anew at the next start */
	}
	snprintf(from, sizeof(from), "sessions/%s", session->id); /* if it could not be moved */
	snprintf(to, sizeof(to), "trash/%s.0", session->id);
	int r = move_to_trash(store, from, to);
	r = r < 0 ? r : set_aside_list(store->dir_fd, &asides, &count);
	for (size_t i = 0; i < count && r == 0; i++) {
		if (strcmp(asides[i].id, session->id) == 0) {
			snprintf(from, sizeof(from), "set-aside/%s.%lu", asides[i].id,
				asides[i].number);
			snprintf(to, sizeof(to), "trash/%s.%lu", asides[i].id, asides[i].number);
			r = move_to_trash(store, from, to);
		}
	}
	free(asides);
	r = r < 0 ? r : disk_sync(store->dir_fd, "set-aside", O_RDONLY | O_DIRECTORY);
	return r == 0 && disk->fsync(emb->sessions_fd) < 0 ? -errno : r;
}
