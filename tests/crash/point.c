#include "point.h"

#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/*
 * For AddressSanitizer, where a test is built with it. A server lives for some milliseconds here,
 * and there are tens of thousands of them: what 16 MiB hold back of the freed memory is several
 * lives long, and 256 MiB, the default, only keep it out of the caches.
 */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "quarantine_size_mb=16:malloc_context_size=10";
}

/* --- files --- */

void log_path(struct buffer *out, const char *dir, const char *id, const char *file)
{
	out->len = 0;
	buffer_printf(out, "%s/sessions/%s/%s", dir, id, file);
	buffer_cstr(out);
}

bool file_read(const char *path, struct buffer *out)
{
	out->len = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (fd < 0) {
		return false;
	}
	assert_int_equal(fstat(fd, &st), 0);
	buffer_reserve(out, (size_t)st.st_size + 1);
	assert_int_equal(read(fd, out->data, (size_t)st.st_size), st.st_size);
	out->len = (size_t)st.st_size;
	close(fd);
	return true;
}

void file_write(const char *path, const struct buffer *bytes)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes->data, bytes->len), bytes->len);
	close(fd);
}

void file_append(const char *path, const char *bytes, size_t len)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	close(fd);
}

void file_put(const char *path, size_t at, const char *bytes, size_t len)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, len, (off_t)at), len);
	close(fd);
}

void file_spoil(const char *path, enum damage damage, size_t at)
{
	unsigned char byte;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	if (damage == CUT) {
		assert_int_equal(ftruncate(fd, (off_t)at), 0);
	} else if (damage == BLANK) {
		struct stat st;
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(ftruncate(fd, (off_t)at), 0);
		assert_int_equal(ftruncate(fd, st.st_size), 0);
	} else {
		assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
		byte ^= (unsigned char)(1 << (at % 8));
		assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	}
	close(fd);
}

static uint64_t metadata_max_seq(const char *dir, const char *id)
{
	struct buffer path = {0};
	log_path(&path, dir, id, "metadata.json");
	json_t *json = json_load_file(path.data, 0, NULL);
	uint64_t max_seq = (uint64_t)json_integer_value(json_object_get(json, "max_seq"));
	json_decref(json);
	buffer_finish(&path);
	return max_seq;
}

/* --- points --- */

void point_take(struct point *p, size_t step, size_t segment_size)
{
	struct rig rig;
	struct buffer path = {0};
	*p = (struct point){.step = step};
	rig_init(&rig);
	rig.limits.segment_size = segment_size;
	assert_int_equal(rig_open(&rig), 0);
	workload_run(&rig, 0, step, p->marks);
	p->dir = rig_copy_dir(rig.dir);
	rig_finish(&rig);
	workload_newest_segment(p->dir, &p->segment, &p->segment_size, NULL);
	assert_int_equal(p->segment, p->marks[step].segment);
	assert_int_equal(p->segment_size, p->marks[step].size);
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		log_path(&path, p->dir, workload_ids[i], "events.jsonl");
		file_read(path.data, &p->logs[i]);
		p->certain[i] = metadata_max_seq(p->dir, workload_ids[i]);
	}
	buffer_finish(&path);
}

void point_free(struct point *p)
{
	rig_remove_dir(p->dir);
	free(p->dir);
	for (size_t i = 0; i < WORKLOAD_SESSIONS; i++) {
		buffer_finish(&p->logs[i]);
	}
}

void point_open(struct rig *rig, const char *dir)
{
	rig_init_on(rig, dir);
	rig->durability = DURABILITY_WRITE;
	assert_int_equal(rig_open(rig), 0);
	session_table_end_tick(rig->table);
}

void point_use_memory(void)
{
	if (access("/dev/shm", W_OK) == 0) {
		setenv("TMPDIR", "/dev/shm", 0);
	}
}
