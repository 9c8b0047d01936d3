/*
 * Tokens, as a stranger, an application and a damaged disk hand them over. The first byte of the
 * plan says what the text is: a token; claims behind a header, each a line, which are signed here as
 * an application would; or lines of access.jsonl, sealed here. A token that gets in was signed with
 * our secret, by a computation of its own here, and counts now.
 */
#include "fuzz.h"

#include "holdfast/access.h"
#include "holdfast/diag.h"
#include "holdfast/sealed_line.h"
#include "core/access/token_key.h"

#include <ftw.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <unistd.h>

#define NOW 1800000000
/* What DIR/token-secret and DIR/access-token hold. */
#define SECRET "a-secret-of-the-fuzzer-with-more-than-32-bytes"
#define OPENER "the-access-token-of-the-fuzzer-is-this-one-0"

struct stage {
	uv_loop_t loop;
	struct clock clock;
	char dir[64];
	struct access_config config;
	struct access *access; /* stays open: most inputs only look at tokens */
};

static struct stage *the_stage;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void remove_stage(void)
{
	nftw(the_stage->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void handle_revoked(void *owner)
{
}

static void write_file(const struct stage *stage, const char *name, const char *bytes, size_t len)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", stage->dir, name);
	FILE *file = fopen(path, "w");
	fuzz_check(file && fwrite(bytes, 1, len, file) == len && fclose(file) == 0,
		"a file can be written");
	fuzz_check(chmod(path, 0600) == 0, "and is for its owner");
}

static struct stage *make_stage(void)
{
	struct stage *stage = xcalloc(1, sizeof(*stage));
	char *why = NULL;
	diag_set_level(DIAG_SILENT);
	uv_loop_init(&stage->loop);
	clock_init(&stage->clock);
	stage->clock.wall_shift_ms = (int64_t)NOW * 1000 - clock_now_ms(&stage->clock);
	strcpy(stage->dir, "/dev/shm/holdfast-fuzz-XXXXXX");
	fuzz_check(mkdtemp(stage->dir) != NULL, "there is a directory");
	write_file(stage, "token-secret", SECRET "\n", strlen(SECRET) + 1);
	write_file(stage, "access-token", OPENER "\n", strlen(OPENER) + 1);
	stage->config = (struct access_config){.loop = &stage->loop,
		.clock = &stage->clock,
		.data_dir = stage->dir,
		.revoked = handle_revoked};
	fuzz_check(access_open(&stage->config, &stage->access, &why) == 0, "the files can be read");
	the_stage = stage;
	atexit(remove_stage);
	return stage;
}

/* --- tokens, made and judged here by other means than the server's --- */

static void append_base64url(struct buffer *out, const void *bytes, size_t len)
{
	unsigned char *text = xmalloc(len * 4 / 3 + 8);
	int n = EVP_EncodeBlock(text, bytes, (int)len);
	while (n > 0 && text[n - 1] == '=') {
		n--;
	}
	for (int i = 0; i < n; i++) {
		buffer_append_char(out, text[i] == '+'   ? '-'
					: text[i] == '/' ? '_'
							 : (char)text[i]);
	}
	free(text);
}

/** The signature that makes the text in front of it a token. */
static void append_signature(struct buffer *out, const char *text, size_t len)
{
	unsigned char mac[32];
	unsigned size = sizeof(mac);
	HMAC(EVP_sha256(), SECRET, (int)strlen(SECRET), (const unsigned char *)text, len, mac,
		&size);
	append_base64url(out, mac, size);
}

/** Whether the last part is what the secret makes of the others. */
static bool is_signed(const char *token)
{
	const char *dot = strrchr(token, '.');
	struct buffer wanted = {0};
	if (!dot) {
		return false;
	}
	append_signature(&wanted, token, (size_t)(dot - token));
	/* Bits of the last character that are no part of the signature may differ. */
	size_t len = strlen(dot + 1);
	bool is_right = len == wanted.len && memcmp(dot + 1, wanted.data, len - 1) == 0;
	buffer_finish(&wanted);
	return is_right;
}

static void check_grant(const struct grant *grant)
{
	int64_t now_ms = (int64_t)NOW * 1000;
	fuzz_check(grant->expires_ms > now_ms, "a token that gets in has not ended");
	fuzz_check(grant->not_before_ms <= now_ms + 1000, "and has begun");
	fuzz_check(grant->role >= 0 && grant->role < ROLE_COUNT, "it has a role");
	fuzz_check(grant->sub && *grant->sub && strlen(grant->sub) <= GRANT_NAME_MAX,
		"it says whose it is");
	fuzz_check(grant->patterns && grant->patterns[0], "it is for some session");
	for (char **at = grant->patterns; *at; at++) {
		const char *star = strchr(*at, '*');
		fuzz_check(!star || !star[1], "a star is at the end of a pattern");
	}
	const char *why;
	json_t *claims = grant_write(grant);
	struct grant *again = grant_read(claims, true, &why);
	fuzz_check(again && again->role == grant->role && strcmp(again->sub, grant->sub) == 0 &&
			   again->expires_ms == grant->expires_ms && again->hide == grant->hide,
		"what is kept of it says the same");
	grant_unref(again);
	json_decref(claims);
}

static void try_token(struct access *access, const char *token)
{
	struct grant *grant = NULL;
	enum token_verdict verdict = access_check(access, token, &grant);
	fuzz_check((verdict == TOKEN_GOOD) == (grant != NULL), "only a good token gives rights");
	if (verdict == TOKEN_GOOD && strcmp(token, OPENER) != 0) {
		fuzz_check(is_signed(token), "a token that gets in was signed");
		check_grant(grant);
	}
	if (verdict == TOKEN_EXPIRED || verdict == TOKEN_REVOKED) {
		fuzz_check(is_signed(token), "only a signed token is told why it does not count");
	}
	grant_unref(grant);
}

static void try_claims(struct access *access, const char *text, size_t len)
{
	const char *line = memchr(text, '\n', len);
	size_t head = line ? (size_t)(line - text) : len;
	struct buffer token = {0};
	append_base64url(&token, text, head);
	buffer_append_char(&token, '.');
	append_base64url(&token, line ? line + 1 : "", line ? len - head - 1 : 0);
	struct buffer signature = {0};
	append_signature(&signature, token.data, token.len);
	buffer_append_char(&token, '.');
	buffer_append(&token, signature.data, signature.len);
	try_token(access, buffer_cstr(&token));
	buffer_finish(&signature);
	buffer_finish(&token);
}

/* --- access.jsonl --- */

/** The lines of the text, each sealed: so those behind the checksum are tried. */
static void seal(struct buffer *out, const char *text, size_t len)
{
	const char *end = text + len;
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t n = newline ? (size_t)(newline - text) : (size_t)(end - text);
		size_t start = out->len;
		buffer_append(out, text, n && text[n - 1] == '}' ? n - 1 : n);
		if (out->len > start) {
			sealed_line_end(out, start);
		}
		text += n + 1;
	}
}

static void try_file(struct stage *stage, const char *text, size_t len, bool is_sealed)
{
	struct access *access = NULL;
	struct buffer lines = {0};
	if (is_sealed) {
		seal(&lines, text, len);
	} else {
		buffer_append(&lines, text, len);
	}
	write_file(stage, "access.jsonl", lines.data ? lines.data : "", lines.len);
	for (int start = 0; start < 2; start++) {
		char *why = NULL;
		int r = access_open(&stage->config, &access, &why);
		fuzz_check(
			r == 0 ? access && !why : why != NULL, "a start that is refused says why");
		if (r < 0) {
			fuzz_check(start == 0, "what one start has written, the next can read");
			free(why);
			break;
		}
		try_token(access, OPENER);
		uv_run(&stage->loop, UV_RUN_NOWAIT);
		access_close(access);
	}
	write_file(stage, "access.jsonl", "", 0);
	buffer_finish(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stage *stage = the_stage ? the_stage : make_stage();
	struct fuzz_input in = fuzz_split(data, size);
	unsigned how = fuzz_take(&in) % 4;
	if (how == 0) {
		char *token = xstrndup(in.text, in.len);
		try_token(stage->access, token);
		free(token);
	} else if (how == 1) {
		try_claims(stage->access, in.text, in.len);
	} else {
		try_file(stage, in.text, in.len, how == 2);
	}
	return 0;
}
