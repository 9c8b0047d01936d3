/* The other half: what a disk may hold when the power goes. */
#include "power_internal.h"

#include "holdfast/pack.h"
#include "random.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define SECTOR 512

/* --- directories --- */

void entries_remove(struct entries *entries, const char *name)
{
	for (size_t i = 0; i < entries->count; i++) {
		if (strcmp(entries->at[i].name, name) == 0) {
			free(entries->at[i].name);
			entries->at[i] = entries->at[--entries->count];
			return;
		}
	}
}

void entries_put(struct entries *entries, const char *name, struct node *node)
{
	entries_remove(entries, name);
	entries->at = xrealloc(entries->at, (entries->count + 1) * sizeof(*entries->at));
	entries->at[entries->count++] = (struct entry){.name = xstrdup(name), .node = node};
}

void entries_finish(struct entries *entries)
{
	while (entries->count) {
		free(entries->at[--entries->count].name);
	}
	free(entries->at);
}

static void apply_to_entries(struct entries *entries, const struct change *change)
{
	switch (change->kind) {
	case CHANGE_LINK:
		entries_put(entries, change->name, change->target);
		break;
	case CHANGE_UNLINK:
		entries_remove(entries, change->name);
		break;
	case CHANGE_RENAME:
		entries_remove(entries, change->from);
		entries_put(entries, change->name, change->target);
		break;
	default:
		fail_msg("no change of a directory");
	}
}

/* --- files --- */

static void resize(struct buffer *bytes, size_t len)
{
	if (len > bytes->len) {
		buffer_reserve(bytes, len - bytes->len);
		memset(bytes->data + bytes->len, 0, len - bytes->len);
	}
	bytes->len = len;
}

static void write_part(struct buffer *bytes, const struct change *change, size_t from, size_t to)
{
	if (from == to) {
		return;
	}
	if (bytes->len < change->offset + to) {
		resize(bytes, change->offset + to);
	}
	memcpy(bytes->data + change->offset + from, change->bytes.data + from, to - from);
}

static void apply_to_bytes(struct buffer *bytes, const struct change *change)
{
	if (change->kind == CHANGE_TRUNCATE) {
		resize(bytes, change->offset);
	} else {
		write_part(bytes, change, 0, change->bytes.len);
	}
}

/** The file is as long as it was; each of the sectors that were written is there or is not. */
static void apply_sectors(struct buffer *bytes, const struct change *change, struct random *random)
{
	size_t end = change->offset + change->bytes.len;
	if (bytes->len < end) {
		resize(bytes, end);
	}
	for (size_t at = change->offset; at < end;) {
		size_t next = (at / SECTOR + 1) * SECTOR;
		next = next < end ? next : end;
		if (random_below(random, 2)) {
			write_part(bytes, change, at - change->offset, next - change->offset);
		}
		at = next;
	}
}

/* --- going forward --- */

static void sync_node(struct power_disk *power, struct node *node)
{
	for (size_t i = 0; i < node->unsynced_count; i++) {
		const struct change *change = &power->changes[node->unsynced[i]];
		if (node->is_dir) {
			apply_to_entries(&node->entries, change);
		} else {
			apply_to_bytes(&node->bytes, change);
		}
	}
	node->unsynced_count = 0;
}

void power_disk_seek(struct power_disk *power, size_t n)
{
	assert_true(n >= power->at && n <= power->change_count);
	for (; power->at < n; power->at++) {
		const struct change *change = &power->changes[power->at];
		struct node *node = change->node;
		if (change->kind == CHANGE_SYNC) {
			sync_node(power, node);
		} else if (change->kind == CHANGE_LOSE) {
			node->unsynced_count = 0;
		} else {
			node->unsynced = xrealloc(node->unsynced,
				(node->unsynced_count + 1) * sizeof(*node->unsynced));
			node->unsynced[node->unsynced_count++] = power->at;
		}
	}
}

/* --- images --- */

enum part { PART_NOTHING, PART_ALL, PART_BYTES, PART_SECTORS, PART_SIZE };

struct image {
	const struct power_disk *power;
	enum survival survival;
	uint64_t seed;
	/* Of the changes that are not synced, by number. */
	size_t newest;
	size_t newest_write;
	size_t oldest;
	struct buffer *out;
	struct buffer path;
};

/** Random numbers of one change's own, so that it does not matter when it is looked at. */
static struct random random_of(const struct image *image, size_t nth)
{
	uint64_t mixed = (image->seed + 1) * 0x9e3779b97f4a7c15u ^ (nth + 1) * 0xbf58476d1ce4e5b9u;
	struct random random = {.state = mixed | 1};
	for (int i = 0; i < 4; i++) {
		random_next(&random);
	}
	return random;
}

static enum part part_of(const struct image *image, size_t nth, struct random *random)
{
	const struct change *change = &image->power->changes[nth];
	bool is_write = change->kind == CHANGE_WRITE;
	bool is_of_file = !change->node->is_dir;
	switch (image->survival) {
	case SURVIVE_NONE:
		return PART_NOTHING;
	case SURVIVE_ALL:
		return PART_ALL;
	case SURVIVE_TORN:
		return nth == image->newest_write ? PART_BYTES : PART_ALL;
	case SURVIVE_SECTORS:
		return nth == image->newest_write ? PART_SECTORS : PART_ALL;
	case SURVIVE_NAMES:
		return is_of_file ? PART_NOTHING : PART_ALL;
	case SURVIVE_SIZES:
		return is_of_file ? PART_SIZE : PART_ALL;
	case SURVIVE_NEWEST:
		return nth == image->newest ? PART_ALL : PART_NOTHING;
	case SURVIVE_OLDEST:
		return nth == image->oldest ? PART_ALL : PART_NOTHING;
	default:
		break;
	}
	static const enum part parts[] = {PART_NOTHING, PART_NOTHING, PART_ALL, PART_ALL,
		PART_BYTES, PART_SECTORS, PART_SIZE};
	return parts[random_below(random, is_write ? 7 : 4)];
}

static void survive_in_file(
	struct buffer *bytes, const struct change *change, enum part part, struct random *random)
{
	size_t len = change->bytes.len;
	switch (part) {
	case PART_NOTHING:
		break;
	case PART_ALL:
		apply_to_bytes(bytes, change);
		break;
	case PART_BYTES:
		write_part(bytes, change, 0, random_below(random, (uint32_t)len));
		break;
	case PART_SECTORS:
		apply_sectors(bytes, change, random);
		break;
	case PART_SIZE:
		if (change->kind == CHANGE_TRUNCATE) {
			apply_to_bytes(bytes, change);
		} else if (bytes->len < change->offset + len) {
			resize(bytes, change->offset + len);
		}
		break;
	}
}

static void image_file(const struct image *image, const struct node *node)
{
	struct buffer bytes = {0};
	buffer_append(&bytes, node->bytes.data, node->bytes.len);
	for (size_t i = 0; i < node->unsynced_count; i++) {
		struct random random = random_of(image, node->unsynced[i]);
		enum part part = part_of(image, node->unsynced[i], &random);
		survive_in_file(&bytes, &image->power->changes[node->unsynced[i]], part, &random);
	}
	pack_bytes(image->out, bytes.data, bytes.len);
	buffer_finish(&bytes);
}

static int compare_entries(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static void image_dir(struct image *image, const struct node *node)
{
	struct entries entries = {0};
	for (size_t i = 0; i < node->entries.count; i++) {
		entries_put(&entries, node->entries.at[i].name, node->entries.at[i].node);
	}
	for (size_t i = 0; i < node->unsynced_count; i++) {
		struct random random = random_of(image, node->unsynced[i]);
		if (part_of(image, node->unsynced[i], &random) != PART_NOTHING) {
			apply_to_entries(&entries, &image->power->changes[node->unsynced[i]]);
		}
	}
	if (entries.count) {
		qsort(entries.at, entries.count, sizeof(*entries.at), compare_entries);
	}
	size_t len = image->path.len;
	for (size_t i = 0; i < entries.count; i++) {
		const struct node *child = entries.at[i].node;
		buffer_printf(&image->path, "/%s", entries.at[i].name);
		pack_bytes(image->out, image->path.data, image->path.len);
		pack_le(image->out, child->is_dir, 1);
		if (child->is_dir) {
			image_dir(image, child);
		} else {
			image_file(image, child);
		}
		image->path.len = len;
	}
	entries_finish(&entries);
}

/** The first and the last of the changes that are not synced, and the last write among them. */
static void find_ends(struct image *image)
{
	image->oldest = SIZE_MAX;
	image->newest = 0;
	image->newest_write = SIZE_MAX;
	for (size_t i = 0; i < image->power->node_count; i++) {
		const struct node *node = image->power->nodes[i];
		for (size_t k = 0; k < node->unsynced_count; k++) {
			size_t nth = node->unsynced[k];
			image->oldest = nth < image->oldest ? nth : image->oldest;
			image->newest = nth > image->newest ? nth : image->newest;
			if (image->power->changes[nth].kind == CHANGE_WRITE &&
				(image->newest_write == SIZE_MAX || nth > image->newest_write)) {
				image->newest_write = nth;
			}
		}
	}
}

void power_disk_image(
	const struct power_disk *power, enum survival survival, uint64_t seed, struct buffer *out)
{
	struct image image = {.power = power, .survival = survival, .seed = seed, .out = out};
	buffer_clear(out);
	find_ends(&image);
	image_dir(&image, power->nodes[0]);
	buffer_finish(&image.path);
}

void power_disk_write_image(const struct buffer *image, const char *dir)
{
	struct unpack in = {.bytes = image->data, .len = image->len};
	struct buffer path = {0};
	assert_int_equal(mkdir(dir, 0700), 0);
	while (in.len) {
		size_t len;
		const char *bytes = unpack_bytes(&in, &len);
		buffer_clear(&path);
		buffer_printf(&path, "%s%.*s", dir, (int)len, bytes);
		if (unpack_le(&in, 1)) {
			assert_int_equal(mkdir(buffer_cstr(&path), 0700), 0);
			continue;
		}
		bytes = unpack_bytes(&in, &len);
		int fd = open(buffer_cstr(&path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, bytes, len), len);
		close(fd);
	}
	assert_false(in.failed);
	buffer_finish(&path);
}

const char *power_disk_survival_name(enum survival survival)
{
	static const char *const names[] = {
		"none", "all", "torn", "sectors", "names", "sizes", "newest", "oldest", "random"};
	return names[survival];
}
