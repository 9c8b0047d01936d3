/*
 * What the server posts to (Web Push, webhooks), and what answers there. The first line is a URL and an address, or a range
 * of them: a URL that is taken is one line of a request, names the host that is connected to, and reads as the same when it
 * is written again. What follows is the head of an answer.
 */
#include "fuzz.h"

#include "holdfast/post.h"

#include <arpa/inet.h>
#include <errno.h>

static bool is_address(const char *host)
{
	unsigned char bytes[16];
	return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static void check_bytes(const struct post_url *url)
{
	for (const char *at = url->path; *at; at++) {
		fuzz_check(*at > ' ' && *at < 0x7f, "a path breaks out of no line");
	}
	for (const char *at = url->origin; *at; at++) {
		fuzz_check(*at > ' ' && *at < 0x7f, "and neither does a host");
	}
	fuzz_check(url->path[0] == '/' && !strchr(url->path, '#'), "a path is one");
	fuzz_check(*url->host && !strpbrk(url->host, "@/?#%"),
		"a host is one, and nobody's name is in it");
}

static void check_again(const struct post_url *url, unsigned also)
{
	struct buffer text = {0};
	struct post_url again;
	buffer_printf(&text, "%s%s", url->origin, url->path);
	if (text.len < POST_URL_MAX) {
		fuzz_check(
			post_url_parse(buffer_cstr(&text), also, &again), "what was read is a URL");
		fuzz_check(strcmp(again.origin, url->origin) == 0, "of the same origin");
		fuzz_check(strcmp(again.host, url->host) == 0, "of the same host");
		fuzz_check(strcmp(again.port, url->port) == 0, "of the same port");
		fuzz_check(strcmp(again.path, url->path) == 0, "of the same path");
		fuzz_check(again.is_tls == url->is_tls, "as secret as before");
	}
	buffer_finish(&text);
}

static void check_url(const char *line, unsigned also)
{
	struct post_url url;
	if (!post_url_parse(line, also, &url)) {
		return;
	}
	int port = atoi(url.port);
	fuzz_check(url.is_tls || also & POST_URL_PLAIN, "http only where it may be");
	fuzz_check(!url.is_literal || also & POST_URL_ADDRESS, "the same of addresses");
	fuzz_check(!url.is_literal || is_address(url.host), "an address is one, and nothing else");
	fuzz_check(url.is_literal || !strchr(url.host, ':'), "a name has no colon");
	fuzz_check(port > 0 && port < 65536, "a port is one");
	check_bytes(&url);
	check_again(&url, also);
}

static void check_address(const char *line)
{
	struct address address;
	struct address_range range;
	bool is_range = address_range_parse(line, &range);
	if (is_range) {
		fuzz_check(range.bits <= 128, "a range has no more bits than an address");
		fuzz_check(address_is_in(&range.address, &range), "its own address is in it");
		fuzz_check(post_may_connect(&range, 1, &range.address), "it may be connected to");
	}
	if (address_parse(line, strlen(line), &address)) {
		struct address household = address_household(&address);
		struct address_range all = {.address = address};
		fuzz_check(address_is_in(&address, &all), "a range of no bits has all");
		household = address_household(&household);
		address = address_household(&address);
		fuzz_check(memcmp(&household, &address, sizeof(address)) == 0,
			"a household is its own");
	}
}

static void check_answer(const char *head)
{
	int64_t seconds = -1;
	int status = post_read_answer(head, 1700000000, &seconds);
	fuzz_check(
		status == -EPROTO || (status >= 100 && status <= 999), "a status has three digits");
	fuzz_check(seconds >= 0, "nothing is to be sent before now");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = size ? (const char *)data : "";
	const char *newline = memchr(text, '\n', size);
	size_t len = newline ? (size_t)(newline - text) : size;
	char *line = xstrndup(text, len);
	for (unsigned also = 0; also < 2 * POST_URL_TYPED; also++) {
		check_url(line, also);
	}
	check_address(line);
	free(line);
	char *head = xstrndup(text + len, size - len);
	check_answer(newline ? head + 1 : head);
	free(head);
	return 0;
}
