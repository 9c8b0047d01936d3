/* The journal as a whole: which segments, and which sessions of the same id, count. */
#include "core/store/embedded/journal_view.h"
#include "journal_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

struct rig {
	char dir[64];
	struct journal_maker maker;
	struct journal_view view;
	struct buffer seen; /* a word for each record and damage */
};

static void rig_begin(struct rig *rig)
{
	*rig = (struct rig){.dir = "/tmp/holdfast-view-XXXXXX"};
	assert_non_null(mkdtemp(rig->dir));
	rig->maker.dir_fd = open(rig->dir, O_RDONLY | O_DIRECTORY);
	journal_view_begin(&rig->view, rig->maker.dir_fd);
}

static void rig_finish(struct rig *rig)
{
	journal_view_finish(&rig->view);
	journal_maker_finish(&rig->maker);
	close(rig->maker.dir_fd);
	rmdir(rig->dir);
	buffer_finish(&rig->seen);
}

/* --- what a walk visits --- */

static int see_record(void *arg, const struct record *record, const struct journal_place *place)
{
	struct rig *rig = arg;
	buffer_printf(&rig->seen, "%.*s ", (int)record->id_len, record->id);
	journal_view_note(&rig->view, record, place);
	return 0;
}

static int see_damage(void *arg, enum journal_damage damage, const struct journal_place *place)
{
	static const char *const words[] = {[JOURNAL_UNBEGUN] = "unbegun",
		[JOURNAL_NEWEST_HEADLESS] = "headless",
		[JOURNAL_LACKS_HEADER] = "no-header",
		[JOURNAL_UNREADABLE] = "unreadable",
		[JOURNAL_HEADER_DAMAGED] = "header",
		[JOURNAL_BATCH_DAMAGED] = "batch",
		[JOURNAL_RECORD_DAMAGED] = "record",
		[JOURNAL_TORN] = "torn",
		[JOURNAL_REST_DAMAGED] = "rest",
		[JOURNAL_CUT] = "cut"};
	struct rig *rig = arg;
	buffer_printf(
		&rig->seen, "%s:%llu ", words[damage], (unsigned long long)place->segment->number);
	if (damage == JOURNAL_RECORD_DAMAGED) {
		journal_view_note_damaged(&rig->view, place->session);
	}
	return 0;
}

/** What a reader of the journal is told, in order. */
static const char *walk(struct rig *rig)
{
	const struct journal_visitor visitor = {
		.record = see_record, .damage = see_damage, .arg = rig};
	buffer_clear(&rig->seen);
	assert_int_equal(journal_view_list(&rig->view), 0);
	assert_int_equal(journal_view_find(&rig->view, &visitor), 0);
	assert_int_equal(journal_view_walk(&rig->view, &visitor), 0);
	return buffer_cstr(&rig->seen);
}

static enum journal_folder folder(struct rig *rig, const char *id, uint64_t epoch)
{
	return journal_view_folder(&rig->view, id, epoch ? &epoch : NULL);
}

/* --- segments --- */

static void the_headers_say_which_segments_count(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	make_segment(&rig.maker, 1, 0, 0, "gone");
	size_t len = make_segment(&rig.maker, 3, 2, 999, "a");
	make_segment(&rig.maker, 4, 3, len, "refused");
	make_segment(&rig.maker, 5, 3, len, "b");
	assert_string_equal(walk(&rig), "a b ");
	assert_int_equal(rig.view.missing, 2);
	assert_false(journal_view_is_useless(&rig.view, 1)); /* it was about to be deleted */
	assert_false(journal_view_is_useless(&rig.view, 3));
	assert_true(journal_view_is_useless(&rig.view, 4));
	assert_false(journal_view_is_useless(&rig.view, 5));
	rig_finish(&rig);
	(void)state;
}

static void the_next_header_says_how_much_counts(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	size_t len = make_segment(&rig.maker, 1, 0, 0, "a");
	put_record(&rig.maker, RECORD_CREATE, "refused", 1, "");
	end_segment(&rig.maker);
	make_segment(&rig.maker, 2, 1, len, "b");
	assert_string_equal(walk(&rig), "a b ");
	make_segment(&rig.maker, 2, 1, 100000, "b");
	assert_string_equal(walk(&rig), "a refused cut:1 b ");
	rig_finish(&rig);
	(void)state;
}

static void good_batches_count_behind_a_damaged_header(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	size_t len = make_segment(&rig.maker, 1, 0, 0, "a");
	len = make_segment(&rig.maker, 2, 1, len, "b");
	make_segment(&rig.maker, 3, 2, len, "c");
	flip(&rig.maker, 3, 20);
	assert_string_equal(walk(&rig), "header:3 a b c ");
	assert_false(journal_view_is_useless(&rig.view, 1));
	flip(&rig.maker, 2, 20);
	assert_string_equal(walk(&rig), "header:3 header:2 a b c ");
	rig_finish(&rig);
	(void)state;
}

static void a_newest_segment_without_a_header_does_not_count(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	size_t len = make_segment(&rig.maker, 1, 0, 0, "a");
	begin_segment(&rig.maker, 2, 1, len);
	end_segment(&rig.maker);
	flip(&rig.maker, 2, 20);
	assert_string_equal(walk(&rig), "unbegun:2 a ");
	assert_true(journal_view_is_useless(&rig.view, 2));
	assert_true(rig.view.chain[0].is_newest);
	begin_segment(&rig.maker, 2, 1, len);
	put_record(&rig.maker, RECORD_CREATE, "b", 1, "");
	put_record(&rig.maker, RECORD_CREATE, "c", 1, "");
	end_segment(&rig.maker);
	flip(&rig.maker, 2, 20);
	flip(&rig.maker, 2, JOURNAL_HEADER_SIZE + 4);
	assert_string_equal(walk(&rig), "headless:2 a ");
	rig_finish(&rig);
	(void)state;
}

static void another_segment_without_a_header_is_left_out(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	size_t len = make_segment(&rig.maker, 1, 0, 0, "a");
	len = make_segment(&rig.maker, 2, 1, len, "b");
	make_segment(&rig.maker, 3, 2, len, "c");
	flip(&rig.maker, 2, 20);
	flip(&rig.maker, 2, JOURNAL_HEADER_SIZE + 4);
	assert_string_equal(walk(&rig), "no-header:2 a c ");
	assert_false(journal_view_is_useless(&rig.view, 2));
	rig_finish(&rig);
	(void)state;
}

/* --- batches --- */

static void a_torn_batch_ends_the_newest_segment_only(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	size_t len = make_segment(&rig.maker, 1, 0, 0, "a");
	put_record(&rig.maker, RECORD_CREATE, "b", 1, "");
	size_t end = rig.maker.segment.len;
	rig.maker.segment.len = end - 1;
	end_segment(&rig.maker);
	assert_string_equal(walk(&rig), "a torn:1 ");
	assert_int_equal(rig.view.newest.len, len);
	assert_int_equal(rig.view.newest.last_batch, JOURNAL_HEADER_SIZE);
	make_segment(&rig.maker, 2, 1, end - 1, "c");
	assert_string_equal(walk(&rig), "a rest:1 c ");
	rig_finish(&rig);
	(void)state;
}

static void a_damaged_record_is_of_a_known_session(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	size_t first = make_segment(&rig.maker, 1, 0, 0, "a");
	put_record(&rig.maker, RECORD_INPUT, "a", 1, "text");
	size_t second = rig.maker.segment.len;
	put_record(&rig.maker, RECORD_CREATE, "b", 1, "");
	end_segment(&rig.maker);
	flip(&rig.maker, 1, first + BATCH_HEADER_SIZE + RECORD_HEADER_SIZE);
	flip(&rig.maker, 1, second + 9); /* the header of the batch behind it */
	assert_string_equal(walk(&rig), "a record:1 batch:1 b ");
	assert_int_equal(journal_view_count_unknown(&rig.view), 1);
	assert_true(journal_view_is_damaged(&rig.view, "a", 1));
	assert_false(journal_view_is_damaged(&rig.view, "b", 1));
	assert_int_equal(journal_view_count_unknown(&rig.view), 0);
	rig_finish(&rig);
	(void)state;
}

/* --- sessions --- */

static void the_last_creation_or_deletion_of_an_id_decides(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	begin_segment(&rig.maker, 1, 0, 0);
	put_record(&rig.maker, RECORD_CREATE, "made", 1, "{}");
	put_record(&rig.maker, RECORD_SNAPSHOT, "old", 1, "");
	put_record(&rig.maker, RECORD_SNAPSHOT, "gone", 1, "");
	put_record(&rig.maker, RECORD_DELETE, "gone", 1, "");
	put_record(&rig.maker, RECORD_CREATE, "again", 1, "{}");
	put_record(&rig.maker, RECORD_DELETE, "again", 1, "");
	put_record(&rig.maker, RECORD_CREATE, "again", 2, "{\"title\":null}");
	put_record(&rig.maker, RECORD_INPUT, "again", 2, "text");
	end_segment(&rig.maker);
	assert_string_equal(walk(&rig), "made old gone gone again again again again ");
	assert_int_equal(folder(&rig, "made", 1), FOLDER_IS_CREATED);
	assert_int_equal(folder(&rig, "made", 2), FOLDER_IS_UNKNOWN);
	assert_int_equal(folder(&rig, "made", 0), FOLDER_IS_CREATED);
	assert_int_equal(folder(&rig, "old", 1), FOLDER_IS_UNKNOWN);
	assert_int_equal(folder(&rig, "old", 0), FOLDER_IS_UNKNOWN);
	assert_int_equal(folder(&rig, "gone", 1), FOLDER_IS_DELETED);
	assert_int_equal(folder(&rig, "gone", 0), FOLDER_IS_DELETED);
	assert_int_equal(folder(&rig, "again", 1), FOLDER_IS_DELETED);
	assert_int_equal(folder(&rig, "again", 2), FOLDER_IS_CREATED);
	/* Its log might be that of the deleted session. */
	assert_int_equal(folder(&rig, "again", 0), FOLDER_IS_DELETED);
	assert_int_equal(folder(&rig, "never", 1), FOLDER_IS_UNKNOWN);
	const struct journal_life *life = journal_view_newest(&rig.view, "again");
	assert_int_equal(life->epoch, 2);
	assert_int_equal(life->created_at, 1002);
	assert_int_equal(life->data.len, strlen("{\"title\":null}"));
	assert_true(journal_view_newest(&rig.view, "gone")->is_deleted);
	assert_null(journal_view_newest(&rig.view, "old"));
	assert_true(journal_view_has_id(&rig.view, "old"));
	assert_false(journal_view_has_id(&rig.view, "never"));
	rig_finish(&rig);
	(void)state;
}

/** No program of ours writes one: nothing may be made or removed by such a name. */
static void a_record_of_no_session_counts_for_nothing(void **state)
{
	struct rig rig;
	rig_begin(&rig);
	begin_segment(&rig.maker, 1, 0, 0);
	put_record(&rig.maker, RECORD_CREATE, "../../x", 1, "{}");
	put_record(&rig.maker, RECORD_CREATE, "x", 1, "{}");
	end_segment(&rig.maker);
	assert_string_equal(walk(&rig), "../../x x ");
	assert_false(journal_view_has_id(&rig.view, "../../x"));
	assert_null(journal_view_newest(&rig.view, "../../x"));
	assert_true(journal_view_newest(&rig.view, "x")->is_created);
	rig_finish(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_headers_say_which_segments_count),
		cmocka_unit_test(the_next_header_says_how_much_counts),
		cmocka_unit_test(good_batches_count_behind_a_damaged_header),
		cmocka_unit_test(a_newest_segment_without_a_header_does_not_count),
		cmocka_unit_test(another_segment_without_a_header_is_left_out),
		cmocka_unit_test(a_torn_batch_ends_the_newest_segment_only),
		cmocka_unit_test(a_damaged_record_is_of_a_known_session),
		cmocka_unit_test(a_record_of_no_session_counts_for_nothing),
		cmocka_unit_test(the_last_creation_or_deletion_of_an_id_decides),
	};
	return cmocka_run_group_tests_name("journal view", tests, NULL, NULL);
}
