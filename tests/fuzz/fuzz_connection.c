/*
 * Whole connections to the server, through libwebsockets and a socket: the text is what a client
 * sends, the plan says where it is cut and whether the client ends its side. What comes back is
 * well-formed: HTTP answers, and behind a 101 WebSocket frames. When the client is gone, so is all
 * that the connection held. A text that begins with ~ is for a server that wants tokens: who has
 * none of them there learns nothing of its session.
 */
#include "fuzz.h"

#include "holdfast/diag.h"
#include "holdfast/door_acp.h"
#include "holdfast/door_ai.h"
#include "holdfast/door_push.h"
#include "holdfast/door_streams.h"
#include "holdfast/door_tap.h"
#include "holdfast/server.h"
#include "server/routes/routes.h"

#include <errno.h>
#include <ftw.h>
#include <sys/socket.h>
#include <unistd.h>

/* Turns of the loop in which something has to come of what was sent. */
#define TURNS 4
/* Turns in which a connection has to be gone. */
#define TURNS_MAX 100000

/* In DIR/access-token and DIR/token-secret. */
#define OPENER "the-access-token-of-the-fuzzer-is-this-one-0"
#define SECRET "a-secret-of-the-fuzzer-with-more-than-32-bytes"
/* Of the session that only a token may see. */
#define PLANTED "planted-title"

struct stage {
	struct server_life life;
	uv_loop_t loop;
	struct clock clock;
	struct limits limits;
	struct session_table *sessions;
	struct door doors[18];
	struct server *server;
	struct access *access; /* NULL: no token is wanted */
	char dir[64];
};

static struct stage *the_stages[2]; /* [1]: with tokens */

/* --- the server --- */

static void handle_changed(void *owner, struct session *session)
{
	struct stage *stage = owner;
	if (stage->server) {
		server_session_changed(stage->server, session);
	}
}

static void handle_deleted(void *owner, struct session *session)
{
	server_session_deleted(((struct stage *)owner)->server, session);
}

static void handle_prompt(void *owner, struct session *session, uint64_t seq, const char *message,
	size_t len, const struct json_t *content)
{
}

static void handle_answered(
	void *owner, struct session *session, const char *request_id, const char *option_id)
{
}

static void handle_store(void *owner, int error)
{
}

static void handle_revived(void *owner)
{
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void remove_stages(void)
{
	for (int i = 0; i < 2; i++) {
		if (the_stages[i]) {
			nftw(the_stages[i]->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
		}
	}
}

static void handle_revoked(void *owner)
{
	server_grants_changed(((struct stage *)owner)->server);
}

static void write_file(const struct stage *stage, const char *name, const char *text)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", stage->dir, name);
	FILE *file = fopen(path, "w");
	fuzz_check(file && fputs(text, file) >= 0 && fclose(file) == 0 && chmod(path, 0600) == 0,
		"a file can be written");
}

static void open_access(struct stage *stage)
{
	char *why = NULL;
	write_file(stage, "access-token", OPENER "\n");
	write_file(stage, "token-secret", SECRET "\n");
	struct access_config config = {.loop = &stage->loop,
		.clock = &stage->clock,
		.data_dir = stage->dir,
		.revoked = handle_revoked,
		.owner = stage};
	fuzz_check(access_open(&config, &stage->access, &why) == 0, "the tokens can be read");
}

static struct stage *make_stage(bool wants_tokens)
{
	static const struct session_ops ops = {
		.prompt_due = handle_prompt,
		.answered = handle_answered,
		.changed = handle_changed,
		.deleted = handle_deleted,
		.store_failed = handle_store,
		.store_revived = handle_revived,
	};
	struct stage *stage = xcalloc(1, sizeof(*stage));
	char *why = NULL;
	diag_set_level(DIAG_SILENT);
	uv_loop_init(&stage->loop);
	clock_init(&stage->clock);
	stage->limits = *limits_default();
	strcpy(stage->dir, "/dev/shm/holdfast-fuzz-XXXXXX");
	fuzz_check(mkdtemp(stage->dir) != NULL, "there is a directory for the sessions");
	int r = session_table_open(&(struct session_table_config){.loop = &stage->loop,
					   .limits = &stage->limits,
					   .clock = &stage->clock,
					   .place = {.life = &stage->life,
						   .dir = stage->dir,
						   .durability = DURABILITY_WRITE},
					   .ops = &ops,
					   .owner = stage},
		&stage->sessions, &why);
	fuzz_check(r == 0, "the sessions can be opened");
	if (wants_tokens) {
		open_access(stage);
	}
	memcpy(stage->doors,
		(struct door[18]){door_tap, {.routes = session_routes}, {.routes = observer_routes},
			{.routes = producer_routes}, {.routes = feed_routes},
			{.routes = blob_routes}, {.routes = queue_routes}, {.routes = login_routes},
			{.routes = metrics_routes}, {.routes = agent_routes},
			{.routes = completion_routes}, door_push, door_ai, door_acp, door_ds,
			door_raw, {.routes = file_routes}},
		sizeof(stage->doors));
	static char host[] = "127.0.0.1";
	static const struct server_trust trust = {0};
	static const struct listen_address listen = {.host = host};
	stage->server = server_create(&(struct server_config){.life = &stage->life,
					      .loop = &stage->loop,
					      .limits = &stage->limits,
					      .clock = &stage->clock,
					      .listen = &listen,
					      .listen_count = 1,
					      .trust = &trust,
					      .doors = stage->doors,
					      .web_dir = wants_tokens ? NULL : stage->dir,
					      .access = stage->access,
					      .metrics = wants_tokens ? metrics_create() : NULL,
					      .sessions = stage->sessions},
		&why);
	fuzz_check(stage->server != NULL, "the server starts");
	server_reach(&stage->life, SERVER_SERVING);
	return stage;
}

static void turn(struct stage *stage)
{
	session_table_end_tick(stage->sessions);
	server_end_tick(stage->server, false);
	uv_run(&stage->loop, UV_RUN_NOWAIT);
	session_table_end_tick(stage->sessions);
	server_end_tick(stage->server, false);
}

/* --- what comes back --- */

static size_t read_number(const char *text, const char *end)
{
	size_t n = 0;
	while (text < end && *text >= '0' && *text <= '9') {
		n = n * 10 + (size_t)(*text++ - '0');
	}
	return n;
}

/** The length of the HTTP answer at the front, or 0 if it is not whole; *ret_status is its status.
 */
static size_t answer_length(const char *text, size_t len, size_t *ret_status)
{
	static const char begin[] = "HTTP/1.1 ";
	static const char field[] = "\r\ncontent-length: ";
	const char *end = text ? memmem(text, len, "\r\n\r\n", 4) : NULL;
	if (!end) {
		return 0;
	}
	fuzz_check(memcmp(text, begin, 9) == 0, "an answer begins with its version");
	*ret_status = read_number(text + 9, end);
	fuzz_check(*ret_status >= 100 && *ret_status < 600, "an answer has a status");
	if (memmem(text, (size_t)(end - text), "text/event-stream", 17)) {
		return len; /* it is all that comes */
	}
	const char *length = memmem(text, (size_t)(end - text), field, sizeof(field) - 1);
	bool has_body = *ret_status >= 200 && *ret_status != 204 && *ret_status != 304;
	fuzz_check(!has_body || length, "an answer with a body tells its length");
	size_t body = has_body ? read_number(length + sizeof(field) - 1, end) : 0;
	size_t all = (size_t)(end - text) + 4 + body;
	return all <= len ? all : 0;
}

/** The frames behind a 101, up to one that is not whole. */
static void check_frames(const unsigned char *bytes, size_t len)
{
	bool is_closed = false;
	while (len >= 2) {
		unsigned opcode = bytes[0] & 0x0f;
		size_t size = bytes[1];
		size_t head = size == 126 ? 4 : size == 127 ? 10 : 2;
		fuzz_check((bytes[0] & 0xf0) == 0x80, "a frame of the server is whole and plain");
		fuzz_check(opcode == 1 || (opcode >= 8 && opcode <= 10), "it has a known opcode");
		fuzz_check(!(bytes[1] & 0x80), "it is not masked");
		fuzz_check(opcode < 8 || size <= 125, "control frames are short");
		fuzz_check(!is_closed, "nothing comes behind a close frame");
		if (len < head) {
			return;
		}
		size = head == 4 ? (size_t)bytes[2] << 8 | bytes[3] : size;
		if (head == 10) {
			size = 0;
			for (int i = 0; i < 8; i++) {
				size = size << 8 | bytes[2 + i];
			}
		}
		is_closed = opcode == 8;
		if (len - head < size) {
			return;
		}
		bytes += head + size;
		len -= head + size;
	}
}

static void check_output(const struct buffer *out)
{
	size_t at = 0;
	size_t status = 0;
	while (out->data && at < out->len) {
		size_t n = answer_length(out->data + at, out->len - at, &status);
		if (!n) {
			return;
		}
		at += n;
		if (status == 101) {
			check_frames((const unsigned char *)out->data + at, out->len - at);
			return;
		}
	}
}

/* --- a connection --- */

static void take_output(int fd, struct buffer *out)
{
	char piece[16384];
	ssize_t n;
	while ((n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT)) > 0) {
		buffer_append(out, piece, (size_t)n);
	}
}

static void play(struct stage *stage, struct fuzz_input *in, int fd, struct buffer *out)
{
	size_t at = 0;
	while (at < in->len) {
		size_t most = in->len - at;
		size_t n = in->plan_len ? fuzz_take_up_to(in, most - 1) + 1 : most;
		ssize_t sent = send(fd, in->text + at, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0 && errno != EAGAIN) {
			return;
		}
		at += sent > 0 ? (size_t)sent : 0;
		for (int i = 0; i < TURNS; i++) {
			turn(stage);
		}
		take_output(fd, out);
	}
	if (fuzz_take(in) & 1) {
		shutdown(fd, SHUT_WR);
	}
	for (int i = 0; i < TURNS * 4; i++) {
		turn(stage);
		take_output(fd, out);
	}
}

/** What a client sends, and what comes back. */
static void visit(struct stage *stage, struct fuzz_input *in, struct buffer *out)
{
	int pair[2];
	fuzz_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0,
		"there is a pair of sockets");
	server_adopt(stage->server, pair[1]);
	play(stage, in, pair[0], out);
	close(pair[0]);
	int turns = 0;
	while (server_connections(stage->server) && turns++ < TURNS_MAX) {
		turn(stage);
		if (turns % 1000 == 0) {
			usleep(1000); /* its answer may wait for the journal's thread, and that for us */
		}
	}
	fuzz_check(!server_connections(stage->server), "a client that is gone leaves nothing");
}

/** The server that wants tokens has a session, so that there is something to see. */
static void plant(struct stage *stage)
{
	static const char request[] =
		"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " OPENER
		"\r\nContent-Type: application/json\r\nContent-Length: 39\r\n\r\n"
		"{\"id\":\"secret\",\"title\":\"" PLANTED "\"}";
	struct fuzz_input in = {.text = request, .len = sizeof(request) - 1};
	struct buffer out = {0};
	bool is_made = false;
	for (int i = 0; i < 1000 && !is_made; i++) {
		buffer_clear(&out);
		visit(stage, &in, &out);
		/* 409: it was made before, but the disk answered late. */
		is_made = strstr(buffer_cstr(&out), " 201 ") || strstr(buffer_cstr(&out), " 409 ");
		usleep(1000);
	}
	fuzz_check(is_made, "a session can be made");
	buffer_finish(&out);
}

static struct stage *stage_for(bool wants_tokens)
{
	struct stage **stage = &the_stages[wants_tokens];
	if (!*stage) {
		*stage = make_stage(wants_tokens);
		if (!the_stages[!wants_tokens]) {
			atexit(remove_stages);
		}
		if (wants_tokens) {
			plant(*stage);
		}
	}
	return *stage;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_split(data, size);
	struct buffer out = {0};
	bool wants_tokens = in.len && in.text[0] == '~';
	in.text += wants_tokens;
	in.len -= wants_tokens;
	struct stage *stage = stage_for(wants_tokens);
	visit(stage, &in, &out);
	if (!memmem(in.text, in.len, "HEAD ", 5)) {
		check_output(&out); /* else nobody knows here which answers have a body */
	}
	bool has_token = memmem(in.text, in.len, OPENER, strlen(OPENER)) != NULL;
	bool sees = out.len && memmem(out.data, out.len, PLANTED, strlen(PLANTED));
	fuzz_check(
		!wants_tokens || has_token || !sees, "who has no token sees nothing of a session");
	buffer_finish(&out);
	return 0;
}
