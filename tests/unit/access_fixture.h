/* What the tests of tokens and of logins share: a data directory at a time that stands still, and tokens for it. */
#ifndef HOLDFAST_TEST_ACCESS_FIXTURE_H
#define HOLDFAST_TEST_ACCESS_FIXTURE_H

#include "holdfast/access.h"
#include "holdfast/buffer.h"

#include "rig.h"

#include <jwt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define NOW 1800000000

struct fixture {
	uv_loop_t loop;
	struct clock clock;
	char *dir;
	struct access_config config;
	struct access *access;
	int revoked;
	int done;
	int status;
};

static inline void handle_revoked(void *owner)
{
	((struct fixture *)owner)->revoked++;
}

static inline void handle_done(void *arg, int status)
{
	struct fixture *f = arg;
	f->done++;
	f->status = status;
}

static inline void open_access(struct fixture *f)
{
	char *why = NULL;
	if (access_open(&f->config, &f->access, &why) < 0) {
		fail_msg("%s", why);
	}
}

static inline void close_access(struct fixture *f)
{
	uv_run(&f->loop, UV_RUN_DEFAULT);
	access_close(f->access);
	f->access = NULL;
}

static inline void reopen(struct fixture *f)
{
	close_access(f);
	open_access(f);
}

static inline int setup(void **state)
{
	char dir[] = "/tmp/holdfast-access-XXXXXX";
	struct fixture *f = xcalloc(1, sizeof(*f));
	uv_loop_init(&f->loop);
	clock_init(&f->clock);
	f->clock.wall_shift_ms = (int64_t)NOW * 1000 - clock_now_ms(&f->clock);
	assert_non_null(mkdtemp(dir));
	f->dir = xstrdup(dir);
	f->config = (struct access_config){.loop = &f->loop,
		.clock = &f->clock,
		.data_dir = f->dir,
		.revoked = handle_revoked,
		.owner = f};
	open_access(f);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;
	close_access(f);
	uv_loop_close(&f->loop);
	rig_remove_dir(f->dir);
	free(f->dir);
	free(f);
	return 0;
}

static inline char *read_file(const struct fixture *f, const char *name)
{
	char path[256];
	char text[4096];
	struct stat st;
	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	size_t n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return xstrdup(text);
}

static inline void write_file(
	const struct fixture *f, const char *name, const char *mode, const char *text)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	FILE *file = fopen(path, mode);
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static inline enum token_verdict check(struct fixture *f, const char *token)
{
	struct grant *grant;
	enum token_verdict verdict = access_check(f->access, token, &grant);
	assert_int_equal(verdict == TOKEN_GOOD, grant != NULL);
	grant_unref(grant);
	return verdict;
}

/** A token with these claims, signed with a key in the form that libjwt takes. */
static inline char *sign(const char *claims, jwt_alg_t alg, const char *key)
{
	jwt_t *jwt;
	assert_int_equal(jwt_new(&jwt), 0);
	assert_int_equal(jwt_add_grants_json(jwt, claims), 0);
	assert_int_equal(
		jwt_set_alg(jwt, alg, (const unsigned char *)key, key ? (int)strlen(key) : 0), 0);
	char *token = jwt_encode_str(jwt);
	assert_non_null(token);
	jwt_free(jwt);
	return token;
}

static inline char *claims_of(const char *sub, const char *more)
{
	char *text;
	assert_true(
		asprintf(&text,
			"{\"sub\":\"%s\",\"exp\":%d%s,\"holdfast\":{\"role\":\"observer\",\"sessions\":[\"*\"]}}",
			sub, NOW + 60, more) > 0);
	return text;
}

static inline char *own_token(struct fixture *f, const char *sub, const char *more)
{
	char *secret = read_file(f, "token-secret");
	char *claims = claims_of(sub, more);
	char *token = sign(claims, JWT_ALG_HS256, secret);
	free(claims);
	free(secret);
	return token;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
