/* Logins, and the file that keeps them: also after a start, a crash and a revocation. */
#include "access_fixture.h"

/* --- logins --- */

static enum token_verdict check_login(struct fixture *f, const char *cookie, const char *header)
{
	struct grant *grant;
	enum token_verdict verdict = access_check_login(f->access, cookie, header, &grant);
	grant_unref(grant);
	return verdict;
}

static struct login_halves log_in(struct fixture *f, const char *token)
{
	struct login_halves halves;
	struct grant *grant;
	int before = f->done;
	assert_int_equal(access_check(f->access, token, &grant), TOKEN_GOOD);
	access_login(f->access, grant, &halves, handle_done, f);
	grant_unref(grant);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(f->done, before + 1);
	assert_int_equal(f->status, 0);
	return halves;
}

static void a_login_needs_both_halves_and_ends_with_its_token(void **state)
{
	struct fixture *f = *state;
	char *token = own_token(f, "ann", ",\"jti\":\"one\"");
	struct login_halves a = log_in(f, token);
	struct login_halves b = log_in(f, token);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(check_login(f, a.cookie, a.header), TOKEN_GOOD);
		assert_int_equal(check_login(f, b.cookie, b.header), TOKEN_GOOD);
		assert_int_equal(check_login(f, a.cookie, b.header), TOKEN_WRONG);
		assert_int_equal(check_login(f, a.cookie, ""), TOKEN_WRONG);
		assert_int_equal(check_login(f, a.header, a.cookie), TOKEN_WRONG);
		assert_int_equal(check_login(f, token, token), TOKEN_WRONG);
		reopen(f);
	}
	f->clock.wall_shift_ms += 61000;
	assert_int_equal(check_login(f, a.cookie, a.header), TOKEN_EXPIRED);
	f->clock.wall_shift_ms -= 61000;
	access_revoke(f->access, &(struct revocation){.jti = "one"}, handle_done, f);
	assert_int_equal(check_login(f, a.cookie, a.header), TOKEN_REVOKED);
	free(token);
}

static void a_logout_ends_one_login(void **state)
{
	struct fixture *f = *state;
	char *token = read_file(f, "access-token");
	struct login_halves a = log_in(f, token);
	struct login_halves b = log_in(f, token);
	struct grant *grant;
	assert_int_equal(access_check_login(f->access, a.cookie, a.header, &grant), TOKEN_GOOD);
	assert_int_equal(grant->role, ROLE_ADMIN);
	assert_false(access_logout(f->access, a.cookie, b.header, handle_done, f));
	assert_true(access_logout(f->access, a.cookie, a.header, handle_done, f));
	assert_int_equal(access_check_grant(f->access, grant), TOKEN_REVOKED);
	assert_int_equal(f->revoked, 1);
	assert_int_equal(check_login(f, a.cookie, a.header), TOKEN_WRONG);
	reopen(f);
	assert_int_equal(check_login(f, a.cookie, a.header), TOKEN_WRONG);
	assert_int_equal(check_login(f, b.cookie, b.header), TOKEN_GOOD);
	assert_int_equal(check(f, token), TOKEN_GOOD);
	grant_unref(grant);
	free(token);
}

static void another_access_token_ends_the_logins_of_the_old_one(void **state)
{
	struct fixture *f = *state;
	char path[256];
	char *token = read_file(f, "access-token");
	char *other = own_token(f, "ann", "");
	struct login_halves a = log_in(f, token);
	struct login_halves b = log_in(f, other);
	snprintf(path, sizeof(path), "%s/access-token", f->dir);
	assert_int_equal(unlink(path), 0);
	reopen(f);
	assert_int_equal(check(f, token), TOKEN_WRONG);
	assert_int_equal(check_login(f, a.cookie, a.header), TOKEN_WRONG);
	assert_int_equal(check_login(f, b.cookie, b.header), TOKEN_GOOD);
	free(token);
	free(other);
}

/* --- the file --- */

static void nothing_secret_is_in_the_file(void **state)
{
	struct fixture *f = *state;
	char *token = read_file(f, "access-token");
	struct login_halves a = log_in(f, token);
	char *text = read_file(f, "access.jsonl");
	assert_null(strstr(text, token));
	assert_null(strstr(text, a.cookie));
	assert_null(strstr(text, a.header));
	free(text);
	free(token);
}

static void a_torn_line_is_cut_off_and_a_damaged_one_is_told(void **state)
{
	struct fixture *f = *state;
	char *why = NULL;
	char *token = read_file(f, "access-token");
	struct login_halves a = log_in(f, token);
	close_access(f);
	write_file(f, "access.jsonl", "a", "{\"revoked\":{\"jti\":\"one\"");
	open_access(f);
	assert_int_equal(check_login(f, a.cookie, a.header), TOKEN_GOOD);
	struct login_halves b = log_in(f, token);
	reopen(f);
	assert_int_equal(check_login(f, a.cookie, a.header), TOKEN_GOOD);
	assert_int_equal(check_login(f, b.cookie, b.header), TOKEN_GOOD);
	close_access(f);
	write_file(f, "access.jsonl", "a", "{\"logout\":\"00\",\"xxh\":\"0000000000000000\"}\n");
	assert_true(access_open(&f->config, &f->access, &why) < 0);
	assert_non_null(strstr(why, "line 3"));
	free(why);
	free(token);
}

/** What `holdfast token create` does, beside the server. */
static char *make_token(struct fixture *f, const char *sub)
{
	char *token = NULL;
	char *why = NULL;
	json_t *claims = json_pack("{s:s, s:I}", "sub", sub, "exp", (json_int_t)NOW + 3600);
	assert_int_equal(access_make_token(f->dir, claims, (int64_t)NOW * 1000, &token, &why), 0);
	json_decref(claims);
	return token;
}

static void count_made(void *arg, const json_t *line)
{
	*(int *)arg += json_object_get(line, "created") != NULL;
}

static void damage_is_kept_for_the_next_start_to_tell(void **state)
{
	struct fixture *f = *state;
	char *why = NULL;
	char *token = read_file(f, "access-token");
	log_in(f, token);
	write_file(f, "access.jsonl", "a", "{\"logout\":\"00\",\"xxh\":\"0000000000000000\"}\n");
	for (int i = 0; i < 1200; i++) {
		log_in(f, token);
	}
	close_access(f);
	assert_true(access_open(&f->config, &f->access, &why) < 0);
	assert_non_null(strstr(why, "is damaged"));
	free(why);
	free(token);
}

static void old_logins_make_room_and_the_file_stays_small(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	char path[256];
	char *token = read_file(f, "access-token");
	char *other = own_token(f, "ann", ",\"jti\":\"ann\"");
	struct login_halves hers = log_in(f, other);
	struct login_halves first = log_in(f, token);
	struct login_halves last;
	char *made = NULL;
	access_revoke(f->access, &(struct revocation){.jti = "gone"}, handle_done, f);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	snprintf(path, sizeof(path), "%s/access.jsonl", f->dir);
	off_t before = 0;
	int shrunk = 0;
	for (int i = 0; i < 2400; i++) {
		last = log_in(f, token);
		assert_int_equal(stat(path, &st), 0);
		assert_true(st.st_size <= 256 * 1024);
		shrunk += st.st_size < before;
		before = st.st_size;
		if (i == 10) {
			made = make_token(f, "carl");
		}
	}
	assert_true(shrunk > 1);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(check_login(f, first.cookie, first.header), TOKEN_WRONG);
		assert_int_equal(check_login(f, last.cookie, last.header), TOKEN_GOOD);
		assert_int_equal(check_login(f, hers.cookie, hers.header), TOKEN_GOOD);
		reopen(f);
	}
	char *why = NULL;
	int count = 0;
	assert_int_equal(access_each_line(f->dir, count_made, &count, &why), 0);
	assert_int_equal(count, 1);
	free(made);
	char *gone = own_token(f, "bob", ",\"jti\":\"gone\"");
	assert_int_equal(check(f, gone), TOKEN_REVOKED);
	free(gone);
	free(token);
	free(other);
}

static void subscribe(struct fixture *f, const struct login_halves *halves, const char *endpoint)
{
	const struct push_subscription push = {
		.endpoint = (char *)endpoint, .p256dh = (char *)"key", .auth = (char *)"secret"};
	assert_int_equal(access_subscribe(f->access, halves->cookie, halves->header,
				 endpoint ? &push : NULL, 10, handle_done, f),
		0);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(f->status, 0);
}

static void gather_endpoint(void *arg, const json_t *line)
{
	const char *endpoint =
		json_string_value(json_object_get(json_object_get(line, "push"), "endpoint"));
	if (endpoint) {
		buffer_printf(arg, "%s ", endpoint);
	}
}

static void a_subscription_lasts_as_long_as_its_login(void **state)
{
	struct fixture *f = *state;
	char *token = read_file(f, "access-token");
	char *other = own_token(f, "ann", ",\"jti\":\"ann\"");
	struct login_halves first = log_in(f, token);
	struct login_halves hers = log_in(f, other);
	struct login_halves off = log_in(f, other);
	subscribe(f, &first, "https://push.example/ended");
	subscribe(f, &hers, "https://push.example/old");
	subscribe(f, &hers, "https://push.example/new");
	subscribe(f, &off, "https://push.example/off");
	subscribe(f, &off, NULL);
	assert_int_equal(access_subscriptions(f->access), 2);
	reopen(f);
	assert_int_equal(access_subscriptions(f->access), 2);
	for (int i = 0; i < 1200; i++) {
		log_in(f, token); /* the first one ends, and the file is written anew */
	}
	assert_int_equal(access_subscriptions(f->access), 1);
	struct buffer endpoints = {0};
	char *why = NULL;
	assert_int_equal(access_each_line(f->dir, gather_endpoint, &endpoints, &why), 0);
	assert_string_equal(buffer_cstr(&endpoints), "https://push.example/new ");
	buffer_finish(&endpoints);
	reopen(f);
	assert_int_equal(access_subscriptions(f->access), 1);
	assert_true(access_is_subscribed(f->access, hers.cookie, hers.header));
	assert_false(access_is_subscribed(f->access, off.cookie, off.header));
	access_revoke(f->access, &(struct revocation){.jti = "ann"}, handle_done, f);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(access_subscriptions(f->access), 0);
	free(token);
	free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_login_needs_both_halves_and_ends_with_its_token),
		CASE(a_logout_ends_one_login),
		CASE(another_access_token_ends_the_logins_of_the_old_one),
		CASE(damage_is_kept_for_the_next_start_to_tell),
		CASE(old_logins_make_room_and_the_file_stays_small),
		CASE(a_subscription_lasts_as_long_as_its_login),
		CASE(nothing_secret_is_in_the_file),
		CASE(a_torn_line_is_cut_off_and_a_damaged_one_is_told),
	};
	return cmocka_run_group_tests_name("access-logins", tests, NULL, NULL);
}
