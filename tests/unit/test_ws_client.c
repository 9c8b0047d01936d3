#include "cli/ws_client.h"

#include <errno.h>
#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* A server in a process of its own, which sends the parts of a stream when it is told to. */
struct server {
	struct http_url url;
	pid_t pid;
	int go;
	char dir[32];
};

static void write_all(int fd, const char *bytes, size_t len)
{
	if (write(fd, bytes, len) != (ssize_t)len) {
		_exit(1);
	}
}

static void upgrade(int fd)
{
	char head[4096] = "";
	char text[96];
	char answer[256];
	unsigned char sum[EVP_MAX_MD_SIZE];
	char accept[32];
	unsigned size = 0;
	for (size_t len = 0; !strstr(head, "\r\n\r\n");) {
		ssize_t n = read(fd, head + len, sizeof(head) - 1 - len);
		if (n <= 0) {
			_exit(1);
		}
		len += (size_t)n;
	}
	const char *key = strstr(head, "Sec-WebSocket-Key: ") + strlen("Sec-WebSocket-Key: ");
	snprintf(text, sizeof(text), "%.*s258EAFA5-E914-47DA-95CA-C5AB0DC85B11",
		(int)strcspn(key, "\r"), key);
	EVP_Digest(text, strlen(text), sum, &size, EVP_sha1(), NULL);
	EVP_EncodeBlock((unsigned char *)accept, sum, (int)size);
	snprintf(answer, sizeof(answer),
		"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: %s\r\n\r\n", accept);
	write_all(fd, answer, strlen(answer));
}

static void serve(int listener, int go, const char *stream, size_t len, size_t cut)
{
	char byte;
	int fd = accept(listener, NULL, NULL);
	upgrade(fd);
	write_all(fd, stream, cut);
	if (read(go, &byte, 1) != 1) {
		_exit(1);
	}
	write_all(fd, stream + cut, len - cut);
	_exit(read(fd, &byte, 1) < 0);
}

static void start(struct server *server, const char *stream, size_t len, size_t cut)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char url[64];
	int go[2];
	strcpy(server->dir, "/tmp/holdfast-ws-XXXXXX");
	assert_non_null(mkdtemp(server->dir));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", server->dir);
	snprintf(url, sizeof(url), "unix:%s/s", server->dir);
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(pipe(go), 0);
	server->pid = fork();
	if (server->pid == 0) {
		close(go[1]);
		serve(listener, go[0], stream, len, cut);
	}
	close(listener);
	close(go[0]);
	server->go = go[1];
	assert_int_equal(http_parse_url(url, &server->url), 0);
}

static void stop(struct server *server)
{
	char path[64];
	close(server->go);
	waitpid(server->pid, NULL, 0);
	snprintf(path, sizeof(path), "%s/s", server->dir);
	unlink(path);
	rmdir(server->dir);
}

/* A message in two frames, with a ping between them, and a second message. */
static const char stream[] = "\x01\x05"
			     "hello"
			     "\x89\x01"
			     "p"
			     "\x80\x06"
			     " world"
			     "\x81\x7e\x00\x05"
			     "again";
#define STREAM_LEN (sizeof(stream) - 1)

static void read_on(struct ws_client *client, struct buffer *out, const char *wanted)
{
	unsigned code;
	int r;
	while ((r = ws_client_read(client, out, &code)) == -EAGAIN) {
	}
	assert_int_equal(r, 1);
	assert_string_equal(buffer_cstr(out), wanted);
	buffer_clear(out);
}

static void a_stream_that_stops_anywhere_goes_on_there(void **state)
{
	for (size_t cut = 0; cut < STREAM_LEN; cut++) {
		const struct timeval soon = {.tv_usec = 5000};
		struct server server;
		struct ws_client *client;
		struct buffer out = {0};
		unsigned code;
		int status;
		char *why;
		start(&server, stream, STREAM_LEN, cut);
		assert_int_equal(ws_client_open(&server.url, "/", &client, &status, &why), 0);
		setsockopt(ws_client_fd(client), SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
		int r = ws_client_read(client, &out, &code);
		if (r == 1) { /* the first message was complete */
			assert_string_equal(buffer_cstr(&out), "hello world");
			buffer_clear(&out);
			r = ws_client_read(client, &out, &code);
			assert_int_equal(r, -EAGAIN);
			write_all(server.go, "x", 1);
		} else {
			assert_int_equal(r, -EAGAIN);
			write_all(server.go, "x", 1);
			read_on(client, &out, "hello world");
		}
		read_on(client, &out, "again");
		ws_client_close(client);
		buffer_finish(&out);
		stop(&server);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_that_stops_anywhere_goes_on_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
