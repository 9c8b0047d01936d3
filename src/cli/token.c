/* holdfast token: issues, lists and revokes tokens. */
#include "http.h"
#include "holdfast/command.h"

#include "holdfast/access.h"
#include "holdfast/buffer.h"
#include "holdfast/clock.h"
#include "holdfast/diag.h"
#include "holdfast/rfc3339.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DATA, ROLE, SESSION, EXPIRES, SUB, HIDE, LINK, BEFORE, OPTION_COUNT };

#define SESSIONS_MAX GRANT_PATTERNS_MAX

static const struct option options[] = {
	[DATA] = {"--data", "DIR", "HOLDFAST_DATA", "./data", "the server's data directory"},
	[ROLE] = {"--role", "ROLE", NULL, NULL,
		"create: observer, controller, producer or admin (see proto/access.md)"},
	[SESSION] = {"--session", "PATTERN", NULL, NULL,
		"create: a session id, or a prefix followed by *; may be repeated"},
	[EXPIRES] = {"--expires", "TIME", NULL, "7d",
		"create: how long it is valid: a number followed by s, m, h or d. Default: 7d"},
	[SUB] = {"--sub", "NAME", NULL, NULL,
		"create: the subject, a name for the holder (random by default); revoke: all tokens of this subject"},
	[HIDE] = {"--hide", "thoughts,tools", NULL, NULL,
		"create: event types that the holder does not see"},
	[LINK] = {"--link", NULL, NULL, NULL,
		"create: print a link for a browser instead of the token. For a single session it is a share link: it does not\n"
		"      replace the login that the browser already has"},
	[BEFORE] = {"--before", "TIME", NULL, NULL,
		"revoke --sub: only tokens issued before this time, such as 2026-11-22T12:00:00Z; by default all issued so far"},
	{0},
};

struct wishes {
	json_t *sessions;
};

static int take_session(void *owner, size_t option, const char *value)
{
	struct wishes *wishes = owner;
	if (option != SESSION) {
		return 0;
	}
	if (!grant_is_pattern(value) || json_array_size(wishes->sessions) >= SESSIONS_MAX) {
		return options_refuse(&options[SESSION], value,
			"expected a session id, or a prefix followed by *; 64 at most");
	}
	json_array_append_new(wishes->sessions, json_string(value));
	return 1;
}

static const struct command command = {
	.usage = "token create|list|revoke [JTI] [OPTIONS]",
	.help = "create  issues a token and prints it; --role and --session say what it allows\n"
		"list    lists the tokens issued by create, and which of them are revoked\n"
		"revoke  revokes a token by its JTI (shown by list), or all tokens of --sub; a running server closes\n"
		"        their connections at once\n\n"
		"Exit codes: 0 done, 2 failed.\n",
	.options = options,
	.words_min = 1,
	.words_max = 2,
	.take = take_session,
};

static int64_t now_ms(void)
{
	struct clock clock;
	clock_init(&clock);
	return clock_now_ms(&clock);
}

static int fail(const char *message)
{
	diag(DIAG_ERROR, "%s; see holdfast token --help", message);
	return -EINVAL;
}

/** Reports `why` (NULL: unknown) and frees it. */
static int fail_with(char *why)
{
	diag(DIAG_ERROR, "%s", why ? why : "failed");
	free(why);
	return -EIO;
}

/* --- create --- */

/** Returns the number of seconds, or -1 if the text is invalid. */
static int64_t read_period(const char *text)
{
	static const struct {
		char unit;
		int64_t seconds;
	} units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
	char *end;
	errno = 0;
	long long number = strtoll(text, &end, 10);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (*text >= '0' && *text <= '9' && *end == units[i].unit && !end[1] && !errno &&
			number > 0 && number <= 36500 * 86400LL / units[i].seconds) {
			return number * units[i].seconds;
		}
	}
	return -1;
}

static json_t *read_hide(const char *list)
{
	json_t *hide = json_array();
	while (list && *list) {
		size_t len = strcspn(list, ",");
		json_array_append_new(hide, json_stringn(list, len));
		list += len + (list[len] == ',');
	}
	return hide;
}

static json_t *make_claims(const char *values[], json_t *sessions, int64_t now)
{
	char random[LOGIN_HALF_SIZE];
	char sub[40];
	char jti[24];
	int64_t period = read_period(values[EXPIRES]);
	if (access_random(random) < 0) {
		return NULL;
	}
	snprintf(sub, sizeof(sub), "token-%.12s", random);
	/* Begins with a letter, so that a command does not take it for an option. */
	snprintf(jti, sizeof(jti), "t%.16s", random + 20);
	return json_pack("{s:s, s:s, s:I, s:I, s:{s:s, s:O, s:o}}", "sub",
		values[SUB] ? values[SUB] : sub, "jti", jti, "iat", (json_int_t)(now / 1000), "exp",
		(json_int_t)(now / 1000 + period), "holdfast", "role", values[ROLE], "sessions",
		sessions, "hide", read_hide(values[HIDE]));
}

static int print_token(const char *values[], const json_t *sessions, const char *token)
{
	const char *first = json_string_value(json_array_get(sessions, 0));
	bool is_one = json_array_size(sessions) == 1 && !strchr(first, '*');
	char *url = values[LINK] ? access_read_url(values[DATA]) : NULL;
	if (values[LINK] && !url) {
		return fail(
			"the server's address is unknown: no server has been started with this data directory, or it listens on a unix socket only and has no --url");
	}
	diag_print("%s%s%s%s%s", url ? url : "",
		!url     ? ""
		: is_one ? "/#share="
			 : "/#token=",
		token, url && is_one ? "&session=" : "", url && is_one ? first : "");
	free(url);
	return 0;
}

static int create(const char *values[], json_t *sessions)
{
	const char *fault;
	char *why = NULL;
	char *token = NULL;
	if (!values[ROLE] || !json_array_size(sessions)) {
		return fail("token create needs --role and --session");
	}
	if (read_period(values[EXPIRES]) < 0) {
		return options_refuse(&options[EXPIRES], values[EXPIRES],
			"give a number and s, m, h or d, such as 7d");
	}
	int64_t now = now_ms();
	json_t *claims = make_claims(values, sessions, now);
	struct grant *grant = claims ? grant_read(claims, false, &fault) : NULL;
	int r = !claims  ? fail("--role or --sub is not UTF-8, or no random numbers are available")
		: !grant ? fail(fault)
			 : 0;
	if (r == 0 && access_make_token(values[DATA], claims, now, &token, &why) < 0) {
		r = fail_with(why);
	}
	if (r == 0) {
		r = print_token(values, sessions, token);
	}
	grant_unref(grant);
	json_decref(claims);
	free(token);
	return r;
}

/* --- list --- */

/** Writes a time, in seconds since 1970. */
static const char *write_time(char text[32], double seconds)
{
	time_t time = (time_t)seconds;
	struct tm tm;
	gmtime_r(&time, &tm);
	strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return text;
}

struct listing {
	json_t *revoked; /* jti: true */
	json_t *before; /* sub: seconds */
	json_t *made; /* claims of the tokens that were created */
};

static void take_line(void *arg, const json_t *line)
{
	struct listing *listing = arg;
	json_t *made = json_object_get(line, "created");
	const json_t *revoked = json_object_get(line, "revoked");
	const char *jti = json_string_value(json_object_get(revoked, "jti"));
	const char *sub = json_string_value(json_object_get(revoked, "sub"));
	if (made) {
		json_array_append(listing->made, made);
	} else if (jti) {
		json_object_set_new(listing->revoked, jti, json_true());
	} else if (sub) {
		json_object_set(listing->before, sub, json_object_get(revoked, "before"));
	}
}

static void print_made(const struct listing *listing, const json_t *made)
{
	const char *jti = json_string_value(json_object_get(made, "jti"));
	const char *sub = json_string_value(json_object_get(made, "sub"));
	const json_t *own = json_object_get(made, "holdfast");
	const json_t *sessions = json_object_get(own, "sessions");
	double exp = json_number_value(json_object_get(made, "exp"));
	double iat = json_number_value(json_object_get(made, "iat"));
	double before = json_number_value(json_object_get(listing->before, sub ? sub : ""));
	bool is_revoked = json_object_get(listing->revoked, jti ? jti : "") || iat * 1000 < before;
	char until[32];
	struct buffer where = {0};
	for (size_t i = 0; i < json_array_size(sessions); i++) {
		buffer_printf(&where, "%s%s", i ? "," : "  ",
			json_string_value(json_array_get(sessions, i)));
	}
	diag_print("%s  %-10s  %s  until %s%s%s", jti ? jti : "-",
		json_string_value(json_object_get(own, "role")), sub ? sub : "-",
		write_time(until, exp), buffer_cstr(&where),
		is_revoked                      ? "  revoked"
		: exp * 1000 < (double)now_ms() ? "  ended"
						: "");
	buffer_finish(&where);
}

static int list(const char *values[])
{
	char *why = NULL;
	size_t i;
	const json_t *made;
	struct listing listing = {json_object(), json_object(), json_array()};
	int r = access_each_line(values[DATA], take_line, &listing, &why);
	if (r < 0) {
		r = fail_with(why);
	}
	json_array_foreach(listing.made, i, made) {
		print_made(&listing, made);
	}
	json_decref(listing.revoked);
	json_decref(listing.before);
	json_decref(listing.made);
	return r;
}

/* --- revoke --- */

static int read_before(const char *text, int64_t *ret_ms)
{
	return rfc3339_read(text, ret_ms) && *ret_ms >= 0
		       ? 0
		       : options_refuse(&options[BEFORE], text,
				 "give a time, such as 2026-11-22T12:00:00Z or 2026-11-22T13:00:00+01:00");
}

/**
 * Asks the running server to revoke. Returns 0; -ECONNREFUSED if none is running; or another
 * negative errno with *ret_why (caller frees).
 */
static int revoke_at(
	const char *url_text, char *token, const struct revocation *revocation, char **ret_why)
{
	struct http_url url;
	struct buffer answer = {0};
	int status;
	if (http_parse_url(url_text, &url) < 0) {
		return -ECONNREFUSED;
	}
	url.token = token;
	url.is_own = true;
	json_t *json = revocation->jti ? json_pack("{s:s}", "jti", revocation->jti)
				       : json_pack("{s:s, s:I}", "sub", revocation->sub, "before",
						 (json_int_t)revocation->before_ms);
	char *body = json_dumps(json, JSON_COMPACT);
	int r = http_post(&url, "/api/tokens/revoke", "application/json", body, strlen(body),
		&status, &answer, ret_why);
	if (r == 0 && status != 204) {
		/* With 401 another server has the port now. */
		r = status == 401 ? -ECONNREFUSED : -EIO;
		if (r == -EIO && asprintf(ret_why, "the server at %s refused to revoke it: %s",
					 url_text, buffer_cstr(&answer)) < 0) {
			*ret_why = NULL;
		}
	}
	free(body);
	json_decref(json);
	buffer_finish(&answer);
	return r;
}

struct search {
	const char *jti;
	bool is_found;
};

static void look_for(void *arg, const json_t *line)
{
	struct search *search = arg;
	const json_t *made = json_object_get(line, "created");
	const char *jti = json_string_value(json_object_get(made, "jti"));
	search->is_found = search->is_found || (jti && strcmp(jti, search->jti) == 0);
}

/** Warns about a JTI that `create` has not issued: it may be of a token of the application. */
static void warn_of_unknown(const char *data_dir, const char *jti)
{
	struct search search = {.jti = jti};
	char *why = NULL;
	if (access_each_line(data_dir, look_for, &search, &why) == 0 && !search.is_found) {
		diag(DIAG_WARN,
			"token create has issued no token with the JTI %s (holdfast token list shows them). The revocation is kept: it applies to a token with this JTI that your application issues",
			jti);
	}
	free(why);
}

static int take_back(const char *values[], const char *jti)
{
	char *why = NULL;
	char *token = NULL;
	struct revocation revocation = {.jti = jti, .sub = values[SUB], .before_ms = now_ms()};
	if (!jti == !values[SUB]) {
		return fail("token revoke needs either a JTI or --sub");
	}
	if (values[BEFORE] && read_before(values[BEFORE], &revocation.before_ms) < 0) {
		return -EINVAL;
	}
	if (tool_find_token(NULL, values[DATA], &token) < 0) {
		return -EIO;
	}
	char *url = access_read_command_url(values[DATA]);
	int r = url ? revoke_at(url, token, &revocation, &why) : -ECONNREFUSED;
	if (r == -ECONNREFUSED) {
		free(why);
		why = NULL;
		r = access_note_revocation(values[DATA], &revocation, now_ms(), &why);
	}
	free(url);
	free(token);
	if (r == 0 && jti) {
		warn_of_unknown(values[DATA], jti);
	}
	return r < 0 ? fail_with(why) : 0;
}

int tool_token(int argc, char **argv)
{
	const char *words[2] = {0};
	const char *values[OPTION_COUNT] = {0};
	struct wishes wishes = {json_array()};
	int r = options_parse(&command, argc, argv, words, values, &wishes);
	if (r == 0 && strcmp(words[0], "create") == 0 && !words[1]) {
		r = create(values, wishes.sessions);
	} else if (r == 0 && strcmp(words[0], "list") == 0 && !words[1]) {
		r = list(values);
	} else if (r == 0 && strcmp(words[0], "revoke") == 0) {
		r = take_back(values, words[1]);
	} else if (r == 0) {
		r = fail("expected token create, token list or token revoke [JTI]");
	}
	json_decref(wishes.sessions);
	return r < 0 ? TOOL_FAILED : 0;
}
