/* Checks tokens and logins, and keeps logins and revocations in memory. */
#include "access_internal.h"

#include "holdfast/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK ((void *)1) /* value of hash entries that are only a set of keys */
/* Most cached tokens, whose signature is not checked again. When full, the cache is emptied. */
#define VERIFIED_MAX 4096
/* Most logins of one subject and key; a further one ends the oldest. */
#define LOGINS_MAX 256
/* How long an expired login is kept, so that its browser is told why it was refused (ms). */
#define ENDED_MS ((int64_t)24 * 3600 * 1000)

/* --- tokens --- */

static bool is_revoked(const struct access *access, const struct grant *grant)
{
	const int64_t *before = hash_get(access->revoked_subs, grant->sub, strlen(grant->sub));
	return (before && *grant->sub && grant->issued_ms < *before) ||
	       (grant->jti && hash_get(access->revoked, grant->jti, strlen(grant->jti)));
}

enum token_verdict access_check_grant(const struct access *access, const struct grant *grant)
{
	int64_t now = clock_now_ms(access->config.clock);
	if (grant->is_over || is_revoked(access, grant)) {
		return TOKEN_REVOKED;
	}
	if (grant->not_before_ms > now) {
		return TOKEN_WRONG;
	}
	return grant->expires_ms && grant->expires_ms <= now ? TOKEN_EXPIRED : TOKEN_GOOD;
}

static bool has_audience(const json_t *aud, const char *wanted)
{
	size_t i;
	const json_t *item;
	const char *one = json_string_value(aud);
	if (one) {
		return strcmp(one, wanted) == 0;
	}
	json_array_foreach(aud, i, item) {
		const char *text = json_string_value(item);
		if (text && strcmp(text, wanted) == 0) {
			return true;
		}
	}
	return false;
}

/** Whether a token of this signer has the issuer and audience that are required. */
static bool is_for_us(
	const struct access *access, const struct signer *signer, const json_t *claims)
{
	const char *issuer = access->config.issuer;
	const char *audience = access->config.audience;
	const char *iss = json_string_value(json_object_get(claims, "iss"));
	if (signer->is_ours) {
		return true;
	}
	return (!issuer || (iss && strcmp(iss, issuer) == 0)) &&
	       (!audience || has_audience(json_object_get(claims, "aud"), audience));
}

static struct grant *read_token(const struct access *access, const char *token)
{
	for (size_t i = 0; i < access->signer_count; i++) {
		const struct signer *signer = &access->signers[i];
		json_t *claims = token_key_verify(signer->key, token);
		const char *why;
		struct grant *grant = claims && is_for_us(access, signer, claims)
					      ? grant_read(claims, false, &why)
					      : NULL;
		bool is_signed = claims != NULL;
		json_decref(claims);
		if (is_signed) {
			if (grant) {
				grant->key = signer->id;
			}
			return grant;
		}
	}
	return NULL;
}

static void unref_grant(void *value, void *arg)
{
	grant_unref(value);
}

static void forget_verified(struct access *access)
{
	hash_each(access->verified, unref_grant, NULL);
	hash_destroy(access->verified);
	access->verified = hash_create();
}

/**
 * Returns a reference to the grant of a token, or NULL if the token is invalid. A signature is
 * checked only once; expiry and revocation are left to the caller.
 */
static struct grant *find_grant(struct access *access, const char *token)
{
	char sum[SUM_SIZE];
	sum_text(token, strlen(token), sum);
	if (sums_equal(sum, access->token_sum)) {
		return grant_ref(access->token_grant);
	}
	struct grant *grant = hash_get(access->verified, sum, SUM_SIZE - 1);
	if (grant) {
		return grant_ref(grant);
	}
	grant = read_token(access, token);
	if (grant) {
		if (hash_count(access->verified) >= VERIFIED_MAX) {
			forget_verified(access);
		}
		hash_put(access->verified, sum, SUM_SIZE - 1, grant_ref(grant));
	}
	return grant;
}

enum token_verdict access_check(struct access *access, const char *token, struct grant **ret_grant)
{
	*ret_grant = NULL;
	if (strnlen(token, TOKEN_MAX + 1) > TOKEN_MAX) {
		return TOKEN_WRONG;
	}
	struct grant *grant = find_grant(access, token);
	enum token_verdict verdict = grant ? access_check_grant(access, grant) : TOKEN_WRONG;
	if (verdict == TOKEN_GOOD) {
		*ret_grant = grant;
	} else {
		grant_unref(grant);
	}
	return verdict;
}

/* --- logins --- */

static void free_login(struct access *access, struct login *login)
{
	if (login) {
		login_forget_push(access, login);
		list_remove(&login->link);
		grant_unref(login->grant);
		free(login);
	}
}

static void add_login(struct access *access, struct login *login)
{
	list_append(&access->login_list, &login->link);
	free_login(access, hash_put(access->logins, login->cookie_sum, SUM_SIZE - 1, login));
}

void access_take_logout(struct access *access, const char *cookie_sum)
{
	free_login(access, hash_remove(access->logins, cookie_sum, strlen(cookie_sum)));
}

static void end_login(
	struct access *access, struct login *login, void (*done)(void *arg, int status), void *arg)
{
	struct buffer line = {0};
	buffer_printf(&line, "{\"logout\":\"%s\"", login->cookie_sum);
	login->grant->is_over = true;
	access_take_logout(access, login->cookie_sum);
	access_file_append(access, &line, done, arg);
}

/**
 * Ends the oldest login of the grant's subject if there are too many, and forgets all logins that
 * expired long ago.
 */
static void make_room(struct access *access, const struct grant *grant)
{
	struct login *oldest = NULL;
	size_t count = 0;
	int64_t now = clock_now_ms(access->config.clock);
	list_for_each_safe(link, tmp, &access->login_list) {
		struct login *login = list_entry(link, struct login, link);
		int64_t expires = login->grant->expires_ms;
		if (expires && expires + ENDED_MS <= now) {
			access_take_logout(access, login->cookie_sum);
		} else if (strcmp(login->grant->sub, grant->sub) == 0 &&
			   login->grant->key == grant->key) {
			oldest = oldest ? oldest : login;
			count++;
		}
	}
	if (count >= LOGINS_MAX) {
		end_login(access, oldest, NULL, NULL);
	}
}

void access_tag(const char *half, char ret_tag[LOGIN_TAG_SIZE])
{
	char sum[SUM_SIZE];
	sum_text(half, strlen(half), sum);
	memcpy(ret_tag, sum + SUM_SIZE - LOGIN_TAG_SIZE, LOGIN_TAG_SIZE);
}

static struct login *find_by_cookie(const struct access *access, const char *cookie)
{
	char sum[SUM_SIZE];
	sum_text(cookie, strlen(cookie), sum);
	return hash_get(access->logins, sum, strlen(sum));
}

struct login *login_find(const struct access *access, const char *cookie, const char *header)
{
	char sum[SUM_SIZE];
	struct login *login = find_by_cookie(access, cookie);
	sum_text(header, strlen(header), sum);
	return login && sums_equal(sum, login->header_sum) ? login : NULL;
}

void login_write(const struct login *login, struct buffer *out)
{
	json_t *claims = grant_write(login->grant);
	char *text = json_dumps(claims, JSON_COMPACT);
	buffer_printf(out,
		"{\"login\":{\"cookie\":\"%s\",\"header\":\"%s\",\"key\":\"%016llx\",\"claims\":%s}",
		login->cookie_sum, login->header_sum, (unsigned long long)login->grant->key, text);
	free(text);
	json_decref(claims);
}

void access_login(struct access *access, struct grant *grant, struct login_halves *ret_halves,
	void (*done)(void *arg, int status), void *arg)
{
	struct login *login = xcalloc(1, sizeof(*login));
	struct buffer line = {0};
	if (access_random(ret_halves->cookie) < 0 || access_random(ret_halves->header) < 0) {
		free(login);
		done(arg, -EIO);
		return;
	}
	sum_text(ret_halves->cookie, strlen(ret_halves->cookie), login->cookie_sum);
	sum_text(ret_halves->header, strlen(ret_halves->header), login->header_sum);
	json_t *claims = grant_write(grant);
	const char *why;
	login->grant = grant_read(claims, true, &why); /* a copy: it can end before the token */
	login->grant->key = grant->key;
	json_decref(claims);
	list_init(&login->link);
	make_room(access, grant);
	add_login(access, login);
	login_write(login, &line);
	access_file_append(access, &line, done, arg);
}

static enum token_verdict check_login(
	struct access *access, const struct login *login, struct grant **ret_grant)
{
	*ret_grant = NULL;
	if (!login) {
		return TOKEN_WRONG;
	}
	enum token_verdict verdict = access_check_grant(access, login->grant);
	if (verdict == TOKEN_GOOD) {
		*ret_grant = grant_ref(login->grant);
	}
	return verdict;
}

enum token_verdict access_check_login(
	struct access *access, const char *cookie, const char *header, struct grant **ret_grant)
{
	return check_login(access, login_find(access, cookie, header), ret_grant);
}

enum token_verdict access_check_cookie(
	struct access *access, const char *cookie, struct grant **ret_grant)
{
	return check_login(access, find_by_cookie(access, cookie), ret_grant);
}

bool access_logout(struct access *access, const char *cookie, const char *header,
	void (*done)(void *arg, int status), void *arg)
{
	struct login *login = login_find(access, cookie, header);
	if (!login) {
		return false;
	}
	end_login(access, login, done, arg);
	access->config.revoked(access->config.owner);
	return true;
}

static uint64_t read_key(const json_t *key)
{
	const char *text = json_string_value(key);
	return text ? strtoull(text, NULL, 16) : 0;
}

bool access_knows_key(const struct access *access, const json_t *id)
{
	uint64_t key = read_key(id);
	bool found = key == access->token_grant->key;
	for (size_t i = 0; i < access->signer_count; i++) {
		found = found || access->signers[i].id == key;
	}
	return found;
}

static bool copy_sum(char out[SUM_SIZE], const json_t *value)
{
	const char *text = json_string_value(value);
	bool is_sum = text && strlen(text) == SUM_SIZE - 1 &&
		      strspn(text, "0123456789abcdef") == SUM_SIZE - 1;
	if (is_sum) {
		memcpy(out, text, SUM_SIZE);
	}
	return is_sum;
}

void access_take_login(struct access *access, const json_t *object)
{
	const char *why;
	const json_t *key = json_object_get(object, "key");
	struct login *login = xcalloc(1, sizeof(*login));
	list_init(&login->link);
	const json_t *claims = json_object_get(object, "claims");
	if (copy_sum(login->cookie_sum, json_object_get(object, "cookie")) &&
		copy_sum(login->header_sum, json_object_get(object, "header")) &&
		access_knows_key(access, key)) {
		login->grant = grant_read(claims, true, &why);
	}
	if (!login->grant) {
		free_login(access, login);
		return;
	}
	login->grant->key = read_key(key);
	add_login(access, login);
}

/* --- revocations --- */

static void revoke_sub(struct access *access, const char *sub, int64_t before_ms)
{
	int64_t *at = hash_get(access->revoked_subs, sub, strlen(sub));
	if (!at) {
		at = xcalloc(1, sizeof(*at));
		hash_put(access->revoked_subs, sub, strlen(sub), at);
	}
	*at = *at > before_ms ? *at : before_ms;
}

void access_take_revocation(struct access *access, const json_t *revoked)
{
	const char *jti = json_string_value(json_object_get(revoked, "jti"));
	const char *sub = json_string_value(json_object_get(revoked, "sub"));
	if (jti) {
		hash_put(access->revoked, jti, strlen(jti), MARK);
	} else if (sub) {
		revoke_sub(access, sub, json_integer_value(json_object_get(revoked, "before")));
	}
}

void revocation_write(const struct revocation *revocation, int64_t now_ms, struct buffer *out)
{
	const char *name = revocation->jti ? revocation->jti : revocation->sub;
	buffer_printf(out, "{\"revoked\":{\"%s\":", revocation->jti ? "jti" : "sub");
	buffer_append_json(out, name, strlen(name));
	if (!revocation->jti) {
		buffer_printf(out, ",\"before\":%lld", (long long)revocation->before_ms);
	}
	buffer_printf(out, ",\"at\":%lld}", (long long)now_ms);
}

static void keep_subscription(void *arg, const char *login_id, const struct grant *grant)
{
}

void access_revoke(struct access *access, const struct revocation *revocation,
	void (*done)(void *arg, int status), void *arg)
{
	struct buffer line = {0};
	const char *name = revocation->jti ? revocation->jti : revocation->sub;
	if (revocation->jti) {
		hash_put(access->revoked, name, strlen(name), MARK);
	} else {
		revoke_sub(access, name, revocation->before_ms);
	}
	revocation_write(revocation, clock_now_ms(access->config.clock), &line);
	access_file_append(access, &line, done, arg);
	access_each_subscription(access, keep_subscription, NULL); /* drops revoked ones */
	access->config.revoked(access->config.owner);
}

/* --- opening --- */

static int fail(char **ret_why, const char *dir, const char *name, const char *fault)
{
	struct buffer why = {0};
	buffer_printf(&why, "%s%s%s: %s", dir, *dir ? "/" : "", name, fault);
	buffer_cstr(&why);
	*ret_why = why.data;
	return -EINVAL;
}

/** Derives an id from a key, by which logins refer to the key. */
static uint64_t name_key(const struct buffer *bytes)
{
	char sum[SUM_SIZE];
	sum_text(bytes->data, bytes->len, sum);
	sum[16] = '\0';
	return strtoull(sum, NULL, 16);
}

static int add_signer(struct access *access, struct token_key *key, const struct buffer *bytes)
{
	bool is_ours = access->signer_count == 0;
	if (key) {
		access->signers[access->signer_count++] =
			(struct signer){.key = key, .id = name_key(bytes), .is_ours = is_ours};
	}
	return key ? 0 : -EINVAL;
}

/** Opens the access token and our own secret, which is the first signer. */
static int open_own(struct access *access, struct buffer *bytes, char **ret_why)
{
	const char *dir = access->config.data_dir;
	const char *why;
	int r = secret_read_or_make(dir, "access-token", bytes);
	if (r < 0 || bytes->len < TOKEN_SECRET_MIN) {
		return fail(ret_why, dir, "access-token", r < 0 ? file_error(-r) : TOKEN_SHORT);
	}
	sum_text(bytes->data, bytes->len, access->token_sum);
	access->token_grant = grant_create(ROLE_ADMIN, "");
	access->token_grant->key = name_key(bytes);
	OPENSSL_cleanse(bytes->data, bytes->len);
	r = secret_read_or_make(dir, "token-secret", bytes);
	if (r < 0 || bytes->len < TOKEN_SECRET_MIN) {
		return fail(ret_why, dir, "token-secret", r < 0 ? file_error(-r) : SECRET_SHORT);
	}
	r = add_signer(access, token_key_secret(bytes->data, bytes->len, &why), bytes);
	return r < 0 ? fail(ret_why, dir, "token-secret", why) : 0;
}

/** Opens the keys of an application that makes tokens itself. */
static int open_others(struct access *access, struct buffer *bytes, char **ret_why)
{
	const char *secret = access->config.secret_file;
	const char *public = access->config.public_key_file;
	const char *why;
	int r = secret ? secret_read_named(secret, bytes) : 0;
	if (secret && r == 0) {
		while (bytes->len && strchr("\r\n", bytes->data[bytes->len - 1])) {
			bytes->len--;
		}
		r = add_signer(access, token_key_secret(bytes->data, bytes->len, &why), bytes);
		if (r < 0) {
			return fail(ret_why, "", secret, why);
		}
	}
	if (r < 0) {
		return fail(ret_why, "", secret, strerror(-r));
	}
	r = public ? secret_read_named(public, bytes) : 0;
	if (r < 0) {
		return fail(ret_why, "", public, strerror(-r));
	}
	if (public) {
		r = add_signer(access, token_key_public(bytes->data, bytes->len, &why), bytes);
	}
	return r < 0 ? fail(ret_why, "", public, why) : 0;
}

static int share_secrets(const struct access_config *config, char **ret_why)
{
	static const char *const names[] = {"access-token", "token-secret"};
	for (size_t i = 0; config->shelf && i < sizeof(names) / sizeof(names[0]); i++) {
		int r = access_share_secret(config->data_dir, names[i], config->shelf);
		if (r < 0) {
			return fail(ret_why, config->data_dir, names[i], file_error(-r));
		}
	}
	return 0;
}

int access_open(const struct access_config *config, struct access **ret_access, char **ret_why)
{
	struct access *access = xcalloc(1, sizeof(*access));
	struct buffer bytes = {0};
	struct buffer path = {0};
	access->config = *config;
	access->logins = hash_create();
	access->verified = hash_create();
	list_init(&access->login_list);
	access->revoked = hash_create();
	access->revoked_subs = hash_create();
	list_init(&access->waiting);
	list_init(&access->writing);
	buffer_printf(&path, "%s/access.jsonl", config->data_dir);
	buffer_cstr(&path);
	access->path = path.data;
	int r = share_secrets(config, ret_why);
	r = r < 0 ? r : open_own(access, &bytes, ret_why);
	if (r == 0) {
		r = open_others(access, &bytes, ret_why);
	}
	if (bytes.data) {
		OPENSSL_cleanse(bytes.data, bytes.cap);
	}
	buffer_finish(&bytes);
	if (r == 0) {
		r = config->shelf ? access_shared_load(access, ret_why)
				  : access_file_load(access, ret_why);
	}
	if (r < 0) {
		access_stop(access);
		access_close(access);
		return r;
	}
	*ret_access = access;
	return 0;
}

static void free_login_value(void *value, void *arg)
{
	free_login(arg, value);
}

static void free_value(void *value, void *arg)
{
	free(value);
}

void access_close(struct access *access)
{
	if (!access) {
		return;
	}
	for (size_t i = 0; i < access->signer_count; i++) {
		token_key_destroy(access->signers[i].key);
	}
	forget_verified(access);
	hash_destroy(access->verified);
	hash_each(access->logins, free_login_value, access);
	hash_each(access->revoked_subs, free_value, NULL);
	hash_destroy(access->logins);
	hash_destroy(access->revoked);
	hash_destroy(access->revoked_subs);
	grant_unref(access->token_grant);
	buffer_finish(&access->look.lines);
	buffer_finish(&access->lines);
	free(access->path);
	free(access);
}
