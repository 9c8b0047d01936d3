/*
 * holdfast upgrade on what earlier programs left (tests/fixtures), with the power cut after every change that it
 * makes: the directory can be read then, and run again it becomes what it becomes without a cut.
 */
#include "look.h"
#include "part.h"
#include "point.h"
#include "power_disk.h"

#include "holdfast/tools.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static int upgrade(const char *dir)
{
	return run_quietly(tool_upgrade, dir, NULL);
}

/** The logs and what is certain of them, of all sessions. */
static void read_sessions(const char *dir, struct buffer *out)
{
	static const char *const names[] = {"events.jsonl", "metadata.json", "keys.jsonl"};
	struct store_files files;
	struct buffer bytes = {0};
	char **ids;
	char *why;
	size_t count;
	assert_int_equal(store_files_open(dir, &files, &why), 0);
	assert_int_equal(store_files_list_sessions(&files, &ids, &count), 0);
	for (size_t i = 0; i < count; i++) {
		for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
			char path[512];
			snprintf(path, sizeof(path), "%s/sessions/%s/%s", dir, ids[i], names[n]);
			buffer_clear(&bytes);
			bool is_there = file_read(path, &bytes);
			buffer_printf(
				out, "%s/%s: %d, %zu\n", ids[i], names[n], is_there, bytes.len);
			buffer_append(out, bytes.data, bytes.len);
		}
		free(ids[i]);
	}
	free(ids);
	buffer_finish(&bytes);
	store_files_close(&files);
}

static void assert_upgraded(const char *dir, const struct buffer *wanted, const char *what)
{
	struct buffer now = {0};
	struct found found = look(dir);
	if (found.problems) {
		fail_msg("%s: %s", what, found.first);
	}
	read_sessions(dir, &now);
	if (now.len != wanted->len || memcmp(now.data, wanted->data, now.len) != 0) {
		fail_msg("%s: the sessions are others", what);
	}
	assert_null(strstr(buffer_cstr(&now), "{\"id\":"));
	buffer_finish(&now);
}

static void cut(const char *start, struct power_disk *power, size_t at, enum survival survival,
	const struct buffer *wanted)
{
	struct buffer image = {0};
	struct buffer told = {0};
	char *dir = rig_copy_dir(start); /* for its name */
	rig_remove_dir(dir);
	if (at) {
		power_disk_tell(power, at - 1, &told);
	}
	buffer_printf(&told, " (change %zu), %s", at, power_disk_survival_name(survival));
	power_disk_image(power, survival, at, &image);
	power_disk_write_image(&image, dir);
	int code = upgrade(dir);
	if (code != 0) {
		fail_msg("cut after %s: upgrade ends with %d", buffer_cstr(&told), code);
	}
	assert_upgraded(dir, wanted, buffer_cstr(&told));
	rig_remove_dir(dir);
	free(dir);
	buffer_finish(&image);
	buffer_finish(&told);
}

static size_t cut_everywhere(const char *start)
{
	struct buffer wanted = {0};
	char *dir = rig_copy_dir(start);
	struct power_disk *power = power_disk_begin(dir);
	int code = upgrade(dir);
	power_disk_end(power);
	assert_int_equal(code, 0);
	read_sessions(dir, &wanted);
	assert_upgraded(dir, &wanted, "without a cut");
	size_t count = power_disk_count(power);
	for (size_t at = 0; at <= count; at++) {
		power_disk_seek(power, at);
		for (enum survival survival = 0; survival < SURVIVE_COUNT; survival++) {
			if (part_has_next()) {
				cut(start, power, at, survival, &wanted);
			}
		}
	}
	power_disk_destroy(power);
	rig_remove_dir(dir);
	free(dir);
	buffer_finish(&wanted);
	return count;
}

static void an_upgrade_may_lose_power_at_any_time(void **state)
{
	size_t count = cut_everywhere(FIXTURES "/data-v1/killed") +
		       cut_everywhere(FIXTURES "/data-v1/stopped");
	assert_true(count > 60);
	print_message("%zu changes\n", count);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_upgrade_may_lose_power_at_any_time),
	};
	point_use_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
