/* Tokens: which get in, also after a start and a revocation. */
#include "core/access/token_key.h"

#include "access_fixture.h"

#include <openssl/evp.h>
#include <openssl/pem.h>

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

/** What may be around a key in its file (RFC 7468), and what may not. */
static void a_public_key_in_its_file(void **state)
{
	const char *why;
	char *private;
	char *public;
	char *other_private;
	char *other;
	make_keys(EVP_EC_gen("P-256"), &private, &public);
	make_keys(EVP_RSA_gen(2048), &other_private, &other);
	char *crlf = xcalloc(2, strlen(public) + 1);
	for (char *from = public, *to = crlf; *from; from++) {
		*to = *from == '\n' ? '\r' : *from;
		to += *from == '\n' ? 2 : 1;
		to[-1] = *from;
	}
	char *texts[] = {
		xprintf("%s", crlf),
		xprintf("Key of our application\nissued: today\n%sand some words\n", public),
		xprintf("%s%s", private, public),
		xprintf("\xef\xbb\xbf%s", public),
		xprintf("%.*s", (int)strlen(public) - 1, public),
		xprintf("%s%s", public, other),
		xprintf("%s%s", public, public),
		xprintf("%s-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n", public),
		xprintf("-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n%s", public),
		xprintf("%.*s", (int)strlen(public) / 2, public),
		xprintf("x%s", public),
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct token_key *key = token_key_public(texts[i], strlen(texts[i]), &why);
		if ((key != NULL) != (i < 5)) {
			fail_msg("%zu: %s", i, key ? "taken" : why);
		}
		token_key_destroy(key);
		free(texts[i]);
	}
	free(crlf);
	free(private);
	free(public);
	free(other_private);
	free(other);
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

/** A crash while a secret is made: the next process can have the same number, in a container always. */
static void what_a_crash_left_of_a_secret_is_in_nobodys_way(void **state)
{
	struct fixture *f = *state;
	char name[64];
	char path[256];
	snprintf(path, sizeof(path), "%s/token-secret", f->dir);
	assert_int_equal(unlink(path), 0);
	snprintf(name, sizeof(name), "token-secret.%ld.new", (long)getpid());
	write_file(f, name, "w", "half");
	reopen(f);
	char *secret = read_file(f, "token-secret");
	assert_true(strlen(secret) >= 32);
	free(secret);
}

/** A command that reads the file while a server starts finds the old address or the new one. */
static void the_address_is_replaced_at_once(void **state)
{
	struct fixture *f = *state;
	char path[256];
	char text[64] = "";
	snprintf(path, sizeof(path), "%s/url", f->dir);
	assert_int_equal(access_write_url(f->dir, "http://old", "http://[::1]:1"), 0);
	FILE *reader = fopen(path, "r");
	assert_non_null(reader);
	assert_int_equal(access_write_url(f->dir, "http://new", "http://[::1]:2"), 0);
	assert_non_null(fgets(text, sizeof(text), reader));
	assert_string_equal(text, "http://old\n");
	fclose(reader);
	char *people = access_read_url(f->dir);
	char *line = read_file(f, "url"); /* which checks its mode */
	assert_string_equal(people, "http://new");
	assert_string_equal(line, people);
	free(people);
	free(line);
	assert_true(access_write_url("/nowhere", "x", "y") < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_access_token_opens_everything),
		CASE(a_token_counts_from_its_beginning_to_its_end),
		CASE(every_change_of_a_token_is_noticed),
		CASE(a_header_says_nothing_that_counts),
		CASE(an_applications_key_decides_the_algorithm),
		cmocka_unit_test(a_public_key_in_its_file),
		CASE(weak_keys_are_refused),
		CASE(an_applications_tokens_are_for_us),
		CASE(a_revoked_token_stays_revoked),
		CASE(all_older_tokens_of_a_sub_can_be_revoked),
		CASE(what_a_crash_left_of_a_secret_is_in_nobodys_way),
		CASE(the_address_is_replaced_at_once),
	};
	return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
