/* Tokens and logins: which get in, also after a start, a crash and a revocation. */
#include "holdfast/access.h"
#include "holdfast/buffer.h"
#include "holdfast/token_key.h"

#include "rig.h"

#include <jwt.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
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

static void handle_revoked(void *owner)
{
	((struct fixture *)owner)->revoked++;
}

static void handle_done(void *arg, int status)
{
	struct fixture *f = arg;
	f->done++;
	f->status = status;
}

static void open_access(struct fixture *f)
{
	char *why = NULL;
	if (access_open(&f->config, &f->access, &why) < 0) {
		fail_msg("%s", why);
	}
}

static void close_access(struct fixture *f)
{
	uv_run(&f->loop, UV_RUN_DEFAULT);
	access_close(f->access);
	f->access = NULL;
}

static void reopen(struct fixture *f)
{
	close_access(f);
	open_access(f);
}

static int setup(void **state)
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

static int teardown(void **state)
{
	struct fixture *f = *state;
	close_access(f);
	uv_loop_close(&f->loop);
	rig_remove_dir(f->dir);
	free(f->dir);
	free(f);
	return 0;
}

static char *read_file(const struct fixture *f, const char *name)
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

static void write_file(
	const struct fixture *f, const char *name, const char *mode, const char *text)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	FILE *file = fopen(path, mode);
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static enum token_verdict check(struct fixture *f, const char *token)
{
	struct grant *grant;
	enum token_verdict verdict = access_check(f->access, token, &grant);
	assert_int_equal(verdict == TOKEN_GOOD, grant != NULL);
	grant_unref(grant);
	return verdict;
}

/** A token with these claims, signed with a key in the form that libjwt takes. */
static char *sign(const char *claims, jwt_alg_t alg, const char *key)
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

static char *claims_of(const char *sub, const char *more)
{
	char *text;
	assert_true(
		asprintf(&text,
			"{\"sub\":\"%s\",\"exp\":%d%s,\"holdfast\":{\"role\":\"observer\",\"sessions\":[\"*\"]}}",
			sub, NOW + 60, more) > 0);
	return text;
}

static char *own_token(struct fixture *f, const char *sub, const char *more)
{
	char *secret = read_file(f, "token-secret");
	char *claims = claims_of(sub, more);
	char *token = sign(claims, JWT_ALG_HS256, secret);
	free(claims);
	free(secret);
	return token;
}

/* --- the access token --- */

static void the_access_token_opens_everything(void **state)
{
	struct fixture *f = *state;
	struct grant *grant;
	char *token = read_file(f, "access-token");
	assert_int_equal(strlen(token), 43);
	assert_int_equal(access_check(f->access, token, &grant), TOKEN_GOOD);
	assert_int_equal(grant->role, ROLE_ADMIN);
	assert_true(grant_sees(grant, "any", 3));
	grant_unref(grant);
	reopen(f);
	assert_int_equal(check(f, token), TOKEN_GOOD);
	token[0] = token[0] == 'A' ? 'B' : 'A';
	assert_int_equal(check(f, token), TOKEN_WRONG);
	token[20] = '\0';
	assert_int_equal(check(f, token), TOKEN_WRONG);
	assert_int_equal(check(f, ""), TOKEN_WRONG);
	free(token);
}

/* --- tokens of our own --- */

static void a_token_counts_from_its_beginning_to_its_end(void **state)
{
	struct fixture *f = *state;
	char more[64];
	snprintf(more, sizeof(more), ",\"nbf\":%d", NOW + 30);
	char *token = own_token(f, "ann", more);
	assert_int_equal(check(f, token), TOKEN_WRONG);
	f->clock.wall_shift_ms += 31000;
	assert_int_equal(check(f, token), TOKEN_GOOD);
	f->clock.wall_shift_ms += 31000;
	assert_int_equal(check(f, token), TOKEN_EXPIRED);
	free(token);
}

static void every_change_of_a_token_is_noticed(void **state)
{
	struct fixture *f = *state;
	char *token = own_token(f, "ann", "");
	size_t len = strlen(token);
	for (size_t i = 0; i < len; i++) {
		char was = token[i];
		/* The last digit of each part has bits that say nothing. */
		bool is_last = !token[i + 1] || token[i + 1] == '.';
		token[i] = was == '.' ? 'A' : was == 'A' ? 'z' : 'A';
		if (!is_last && check(f, token) == TOKEN_GOOD) {
			fail_msg("byte %zu may change", i);
		}
		token[i] = was;
		token[i] = '\0';
		assert_int_equal(check(f, token), TOKEN_WRONG);
		token[i] = was;
	}
	assert_int_equal(check(f, token), TOKEN_GOOD);
	char *longer;
	assert_true(asprintf(&longer, "%s.x", token) > 0);
	assert_int_equal(check(f, longer), TOKEN_WRONG);
	free(longer);
	free(token);
}

/** base64url without padding. */
static char *encode(const char *text)
{
	size_t len = strlen(text);
	char *out = xcalloc(1, 4 * (len + 2) / 3 + 8);
	EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)text, (int)len);
	for (char *at = out; *at; at++) {
		*at = *at == '+' ? '-' : *at == '/' ? '_' : *at;
	}
	out[strcspn(out, "=")] = '\0';
	return out;
}

/** The same token with another header: as those do it who cannot sign. */
static char *with_header(const char *token, const char *header)
{
	char *made;
	char *head = encode(header);
	assert_true(asprintf(&made, "%s%s", head, strchr(token, '.')) > 0);
	free(head);
	return made;
}

static void a_header_says_nothing_that_counts(void **state)
{
	static const char *const headers[] = {
		"{\"alg\":\"none\"}",
		"{\"alg\":\"None\",\"typ\":\"JWT\"}",
		"{\"typ\":\"JWT\"}",
		"{\"alg\":\"HS512\",\"typ\":\"JWT\"}",
		"{\"alg\":\"RS256\",\"typ\":\"JWT\"}",
		"{\"alg\":\"HS256\",\"alg\":\"none\"}",
		"{\"alg\":\"HS256\",\"crit\":[\"exp\"]}",
		"[]",
		"{",
	};
	struct fixture *f = *state;
	char *token = own_token(f, "ann", "");
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		char *made = with_header(token, headers[i]);
		assert_int_equal(check(f, made), TOKEN_WRONG);
		made[strrchr(made, '.') + 1 - made] = '\0'; /* no signature at all */
		assert_int_equal(check(f, made), TOKEN_WRONG);
		free(made);
	}
	char *claims = claims_of("ann", "");
	char *unsigned_token = sign(claims, JWT_ALG_NONE, NULL);
	assert_int_equal(check(f, unsigned_token), TOKEN_WRONG);
	free(unsigned_token);
	free(claims);
	free(token);
}

/* --- an application's keys --- */

static void take_pem(BIO *bio, char **ret)
{
	char *data;
	long len = BIO_get_mem_data(bio, &data);
	*ret = xstrndup(data, (size_t)len);
	BIO_free(bio);
}

static void make_keys(EVP_PKEY *pkey, char **ret_private, char **ret_public)
{
	BIO *private = BIO_new(BIO_s_mem());
	BIO *public = BIO_new(BIO_s_mem());
	assert_non_null(pkey);
	assert_int_equal(PEM_write_bio_PrivateKey(private, pkey, NULL, NULL, 0, NULL, NULL), 1);
	assert_int_equal(PEM_write_bio_PUBKEY(public, pkey), 1);
	take_pem(private, ret_private);
	take_pem(public, ret_public);
	EVP_PKEY_free(pkey);
}

static void open_with_key(struct fixture *f, const char *public)
{
	static char path[256];
	snprintf(path, sizeof(path), "%s/key.pem", f->dir);
	write_file(f, "key.pem", "w", public);
	f->config.public_key_file = path;
	reopen(f);
}

static void check_public_key(struct fixture *f, EVP_PKEY *pkey, jwt_alg_t alg)
{
	char *private;
	char *public;
	make_keys(pkey, &private, &public);
	open_with_key(f, public);
	char *claims = claims_of("bob", "");
	char *good = sign(claims, alg, private);
	char *confused = sign(claims, JWT_ALG_HS256, public); /* the public key as a secret */
	char *own = own_token(f, "ann", "");
	assert_int_equal(check(f, good), TOKEN_GOOD);
	assert_int_equal(check(f, own), TOKEN_GOOD);
	assert_int_equal(check(f, confused), TOKEN_WRONG);
	free(good);
	free(confused);
	free(own);
	free(claims);
	free(private);
	free(public);
}

static void an_applications_key_decides_the_algorithm(void **state)
{
	struct fixture *f = *state;
	check_public_key(f, EVP_RSA_gen(2048), JWT_ALG_RS256);
	check_public_key(f, EVP_EC_gen("P-256"), JWT_ALG_ES256);
}

static void weak_keys_are_refused(void **state)
{
	struct fixture *f = *state;
	EVP_PKEY *weak[] = {
		EVP_RSA_gen(1024), EVP_EC_gen("P-384"), EVP_PKEY_Q_keygen(NULL, NULL, "ED25519")};
	for (size_t i = 0; i < 3; i++) {
		const char *why = NULL;
		char *private;
		char *public;
		make_keys(weak[i], &private, &public);
		assert_null(token_key_public(public, strlen(public), &why));
		assert_non_null(why);
		assert_null(token_key_public(private, strlen(private), &why));
		free(private);
		free(public);
	}
	const char *why = NULL;
	assert_null(token_key_secret("short", 5, &why));
	assert_non_null(why);
	(void)f;
}

static void an_applications_tokens_are_for_us(void **state)
{
	static const char secret[] = "0123456789abcdef0123456789abcdef";
	static const struct {
		const char *more;
		enum token_verdict verdict;
	} cases[] = {
		{",\"iss\":\"app\",\"aud\":\"holdfast\"", TOKEN_GOOD},
		{",\"iss\":\"app\",\"aud\":[\"other\",\"holdfast\"]", TOKEN_GOOD},
		{",\"iss\":\"app\",\"aud\":\"other\"", TOKEN_WRONG},
		{",\"iss\":\"app\",\"aud\":[]", TOKEN_WRONG},
		{",\"iss\":\"app\"", TOKEN_WRONG},
		{",\"iss\":\"else\",\"aud\":\"holdfast\"", TOKEN_WRONG},
		{",\"aud\":\"holdfast\"", TOKEN_WRONG},
	};
	struct fixture *f = *state;
	char path[256];
	snprintf(path, sizeof(path), "%s/app-secret", f->dir);
	write_file(f, "app-secret", "w", secret);
	f->config.secret_file = path;
	f->config.issuer = "app";
	f->config.audience = "holdfast";
	reopen(f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *claims = claims_of("bob", cases[i].more);
		char *token = sign(claims, JWT_ALG_HS256, secret);
		assert_int_equal(check(f, token), cases[i].verdict);
		free(token);
		free(claims);
	}
	char *own = own_token(f, "ann", "");
	assert_int_equal(check(f, own), TOKEN_GOOD);
	free(own);
	f->config.secret_file = NULL;
}

/* --- revocations --- */

static void a_revoked_token_stays_revoked(void **state)
{
	struct fixture *f = *state;
	char *one = own_token(f, "ann", ",\"jti\":\"one\"");
	char *two = own_token(f, "ann", ",\"jti\":\"two\"");
	access_revoke(f->access, &(struct revocation){.jti = "one"}, handle_done, f);
	assert_int_equal(f->revoked, 1);
	assert_int_equal(check(f, one), TOKEN_REVOKED); /* at once */
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(f->done, 1);
	assert_int_equal(f->status, 0);
	assert_int_equal(check(f, two), TOKEN_GOOD);
	reopen(f);
	assert_int_equal(check(f, one), TOKEN_REVOKED);
	assert_int_equal(check(f, two), TOKEN_GOOD);
	free(one);
	free(two);
}

static void all_older_tokens_of_a_sub_can_be_revoked(void **state)
{
	struct fixture *f = *state;
	char old[64];
	char young[64];
	snprintf(old, sizeof(old), ",\"iat\":%d", NOW - 10);
	snprintf(young, sizeof(young), ",\"iat\":%d", NOW + 1);
	char *tokens[] = {own_token(f, "ann", old), own_token(f, "ann", ""),
		own_token(f, "ann", young), own_token(f, "bob", old)};
	static const enum token_verdict verdicts[] = {
		TOKEN_REVOKED, TOKEN_REVOKED, TOKEN_GOOD, TOKEN_GOOD};
	access_revoke(f->access,
		&(struct revocation){.sub = "ann", .before_ms = (int64_t)NOW * 1000}, handle_done,
		f);
	/* An earlier one takes nothing back. */
	access_revoke(f->access,
		&(struct revocation){.sub = "ann", .before_ms = (int64_t)NOW * 900}, handle_done,
		f);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < 4; i++) {
			assert_int_equal(check(f, tokens[i]), verdicts[i]);
		}
		reopen(f);
	}
	for (size_t i = 0; i < 4; i++) {
		free(tokens[i]);
	}
}

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

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(the_access_token_opens_everything),
		CASE(a_token_counts_from_its_beginning_to_its_end),
		CASE(every_change_of_a_token_is_noticed),
		CASE(a_header_says_nothing_that_counts),
		CASE(an_applications_key_decides_the_algorithm),
		CASE(weak_keys_are_refused),
		CASE(an_applications_tokens_are_for_us),
		CASE(a_revoked_token_stays_revoked),
		CASE(all_older_tokens_of_a_sub_can_be_revoked),
		CASE(a_login_needs_both_halves_and_ends_with_its_token),
		CASE(a_logout_ends_one_login),
		CASE(another_access_token_ends_the_logins_of_the_old_one),
		CASE(damage_is_kept_for_the_next_start_to_tell),
		CASE(old_logins_make_room_and_the_file_stays_small),
		CASE(nothing_secret_is_in_the_file),
		CASE(a_torn_line_is_cut_off_and_a_damaged_one_is_told),
	};
	return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
