/* What tracing (power_disk.c) and the making of images (power_image.c) share. */
#ifndef HOLDFAST_TESTS_POWER_INTERNAL_H
#define HOLDFAST_TESTS_POWER_INTERNAL_H

#include "power_disk.h"

#include "core/store/disk.h"

#include <sys/types.h>

enum change_kind {
	CHANGE_WRITE,
	CHANGE_TRUNCATE,
	CHANGE_LINK, /* a name gets a node: by creation, or by the one half of a rename */
	CHANGE_UNLINK,
	CHANGE_RENAME, /* within one directory */
	CHANGE_SYNC, /* of a file or a directory */
	CHANGE_LOSE,
};

struct change {
	enum change_kind kind;
	struct node *node; /* file or directory that is changed */
	struct node *target; /* of a link or a rename */
	char *name;
	char *from; /* of a rename */
	struct buffer bytes; /* of a write */
	size_t offset; /* of a write; the length of a truncate */
};

struct entry {
	char *name;
	struct node *node;
};

struct entries {
	struct entry *at;
	size_t count;
};

/** A file or a directory; what it holds is as it was synced last. */
struct node {
	ino_t ino;
	bool is_dir;
	char *told_name; /* for failures: the name it had first */
	struct buffer bytes;
	struct entries entries;
	size_t *unsynced; /* changes since, by number */
	size_t unsynced_count;
};

struct power_disk {
	const struct disk_ops *below;
	struct node **nodes; /* the first one is the directory itself */
	size_t node_count;
	struct change *changes;
	size_t change_count;
	size_t at; /* the nodes are as after so many changes */
	bool is_held; /* see power_disk_hold() */
};

void entries_put(struct entries *entries, const char *name, struct node *node);
void entries_remove(struct entries *entries, const char *name);
void entries_finish(struct entries *entries);

#endif
