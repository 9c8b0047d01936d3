/*
 * Blobs go with the events that speak of them. The power goes after every single change that this makes to the
 * disk: what an event that is there speaks of, is there.
 */
#include "part.h"
#include "point.h"
#include "power_disk.h"
#include "reading.h"
#include "core/session/session_internal.h"

#include "holdfast/diag.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define EVENTS 12
#define KEPT   4
#define DAY    86400

static void name_blob(char name[65], unsigned n)
{
	snprintf(name, 65, "%064x", 0xb10bU + n);
}

static void blob_path(struct buffer *out, const char *dir, const char *suffix, unsigned n)
{
	char name[65];
	name_blob(name, n);
	buffer_clear(out);
	buffer_printf(out, "%s/sessions/s/blobs/%s%s", dir, name, suffix);
}

static bool has_blob(const char *dir, const char *suffix, unsigned n)
{
	struct buffer path = {0};
	blob_path(&path, dir, suffix, n);
	bool has = access(buffer_cstr(&path), F_OK) == 0;
	buffer_finish(&path);
	return has;
}

/** `age`: seconds before the rig's clock. */
static void put_blob(struct rig *rig, const char *suffix, unsigned n, int64_t age)
{
	struct buffer path = {0};
	buffer_printf(&path, "%s/sessions/s/blobs", rig->dir);
	mkdir(buffer_cstr(&path), 0700);
	blob_path(&path, rig->dir, suffix, n);
	int fd = open(buffer_cstr(&path), O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	time_t at = (time_t)(clock_now_ms(&rig->clock) / 1000 - age);
	const struct timespec times[2] = {{.tv_sec = at}, {.tv_sec = at}};
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
	buffer_finish(&path);
}

/** A session of which each event speaks of a blob; the power disk knows what its pruning does. */
static struct power_disk *run(struct rig *rig)
{
	rig_init(rig);
	rig->limits.prune_ms = RIG_NEVER;
	rig->limits.prune_size = 1;
	rig->limits.keep_events = KEPT;
	rig->limits.clock_trust_ms = 0;
	assert_int_equal(rig_open(rig), 0);
	struct session *session = rig_session(rig, "s");
	rig_settle(rig);
	for (unsigned n = 1; n <= EVENTS; n++) {
		char name[65];
		char data[128];
		name_blob(name, n);
		snprintf(data, sizeof(data), "{\"content\":[{\"blob\":\"%s\"}]}", name);
		rig_put(session, "x-note", data);
		put_blob(rig, n == 2 || n == EVENTS ? ".tools" : "", n, 3 * (int64_t)DAY);
	}
	put_blob(rig, "", 100, 3 * (int64_t)DAY); /* of no event */
	put_blob(rig, "", 101, 60); /* for one that is to come */
	put_blob(rig, "", 102, 3 * (int64_t)DAY); /* of a prompt that waits */
	rig_settle(rig);
	rig_put(session, "user_prompt", "{\"message\":\"first\"}");
	char name[65];
	name_blob(name, 102);
	json_t *content = json_pack("[{s:s, s:s, s:i}]", "type", "image", "blob", name, "size", 1);
	const struct request request = {.type = REQUEST_PROMPT,
		.prompt = {.message = "second",
			.message_len = 6,
			.prompt_id = "p-2",
			.content = content}};
	uint64_t seq;
	bool duplicate;
	assert_int_equal(session_prompt_with(session, &request,
				 &(struct author){.client_id = "c", .sub = ""}, &seq, &duplicate),
		0);
	json_decref(content);
	rig_settle(rig);
	struct power_disk *power = power_disk_begin(rig->dir);
	store_prune(rig->table->store);
	rig_settle(rig);
	rig_close(rig);
	uv_timer_stop(&rig->guard); /* this loop stands still from here on */
	power_disk_end(power);
	return power;
}

static void blobs_go_with_their_events(void **state)
{
	struct rig rig;
	struct power_disk *power = run(&rig);
	/* One event is the prompt that has begun. */
	for (unsigned n = 1; n <= EVENTS; n++) {
		const char *suffix = n == 2 || n == EVENTS ? ".tools" : "";
		assert_int_equal(has_blob(rig.dir, suffix, n), n > EVENTS + 1 - KEPT);
	}
	assert_false(has_blob(rig.dir, "", 100));
	assert_true(has_blob(rig.dir, "", 101));
	assert_true(has_blob(rig.dir, "", 102));
	power_disk_destroy(power);
	rig_finish(&rig);
	(void)state;
}

/** Of a disk after a cut: the events that it has, and their blobs. Returns the first seq. */
static uint64_t check_image(const struct rig *of, const struct buffer *image, const char *dir)
{
	struct rig rig;
	struct buffer text = {0};
	power_disk_write_image(image, dir);
	rig_init_on(&rig, dir);
	rig.limits = of->limits;
	assert_int_equal(rig_open(&rig), 0);
	struct session *session = session_table_get(rig.table, "s", 1);
	assert_non_null(session);
	uint64_t first = session_log_first_seq(session->log);
	for (uint64_t seq = first; seq <= EVENTS; seq++) {
		buffer_clear(&text);
		assert_int_equal(reading_page(&rig, session, seq, seq, &text), 1);
		unsigned n = (unsigned)seq;
		assert_true(has_blob(dir, n == 2 || n == EVENTS ? ".tools" : "", n));
	}
	assert_true(has_blob(dir, "", 101));
	assert_true(has_blob(dir, "", 102));
	rig_close(&rig);
	rig_finish(&rig);
	buffer_finish(&text);
	return first;
}

static void no_event_is_without_its_blob_after_a_power_cut(void **state)
{
	struct rig rig;
	struct buffer image = {0};
	struct power_disk *power = run(&rig);
	char *dir = xprintf("%s-cut", rig.dir);
	size_t seen[2] = {0};
	for (size_t cut = 0; cut <= power_disk_count(power); cut++) {
		power_disk_seek(power, cut);
		if (cut > 0 && cut < power_disk_count(power) && !part_has_next()) {
			continue;
		}
		for (enum survival survival = 0; survival < SURVIVE_COUNT; survival++) {
			power_disk_image(power, survival, cut, &image);
			seen[check_image(&rig, &image, dir) > 1]++;
			rig_remove_dir(dir);
		}
	}
	assert_true(seen[0] > 0 && seen[1] > 0); /* before it, and after it */
	buffer_finish(&image);
	power_disk_destroy(power);
	rig_finish(&rig);
	free(dir);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blobs_go_with_their_events),
		cmocka_unit_test(no_event_is_without_its_blob_after_a_power_cut),
	};
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("prune-blobs", tests, NULL, NULL);
}
