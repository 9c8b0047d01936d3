#include "relay_qr.h"

#include "holdfast/access.h"
#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <qrencode.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* The light border that readers need, in modules. */
#define QUIET 4

/* --- the address --- */

/** Finds the address from which this machine sends to others. Nothing is sent. */
static bool find_by_route(int family, char host[INET6_ADDRSTRLEN])
{
	struct sockaddr_in far4 = {.sin_family = AF_INET, .sin_port = htons(9)};
	struct sockaddr_in6 far6 = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} own = {0};
	bool is_v4 = family == AF_INET;
	socklen_t len = sizeof(own);
	/* Addresses reserved for documentation, so the default route leads there. */
	inet_pton(AF_INET, "192.0.2.1", &far4.sin_addr);
	inet_pton(AF_INET6, "2001:db8::1", &far6.sin6_addr);
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return false;
	}
	int r = is_v4 ? connect(fd, (struct sockaddr *)&far4, sizeof(far4))
		      : connect(fd, (struct sockaddr *)&far6, sizeof(far6));
	r = r < 0 ? r : getsockname(fd, &own.any, &len);
	close(fd);
	const void *bytes = is_v4 ? (void *)&own.v4.sin_addr : (void *)&own.v6.sin6_addr;
	return r == 0 && inet_ntop(family, bytes, host, INET6_ADDRSTRLEN);
}

static bool is_for_others(const struct ifaddrs *one, int family)
{
	if (!one->ifa_addr || one->ifa_addr->sa_family != family || !(one->ifa_flags & IFF_UP) ||
		(one->ifa_flags & IFF_LOOPBACK)) {
		return false;
	}
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)one->ifa_addr;
	return family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

/** Without a route: finds the first address that other machines of the network can reach. */
static bool find_by_interface(int family, char host[INET6_ADDRSTRLEN])
{
	struct ifaddrs *all;
	bool found = false;
	if (getifaddrs(&all) < 0) {
		return false;
	}
	for (const struct ifaddrs *one = all; one && !found; one = one->ifa_next) {
		if (is_for_others(one, family)) {
			const void *bytes =
				family == AF_INET
					? (void *)&((struct sockaddr_in *)one->ifa_addr)->sin_addr
					: (void *)&((struct sockaddr_in6 *)one->ifa_addr)
						  ->sin6_addr;
			found = inet_ntop(family, bytes, host, INET6_ADDRSTRLEN);
		}
	}
	freeifaddrs(all);
	return found;
}

static bool find_own_address(int family, char host[INET6_ADDRSTRLEN])
{
	return find_by_route(family, host) || find_by_interface(family, host);
}

static bool is_loopback_name(const char *host)
{
	return strncmp(host, "127.", 4) == 0 || strncmp(host, "::1", 4) == 0 ||
	       strncmp(host, "[::1]", 5) == 0 ||
	       (strncasecmp(host, "localhost", 9) == 0 && (!host[9] || host[9] == ':'));
}

/** Appends a listener's URL as seen from a phone. Returns whether a phone can reach it. */
static bool append_phone_url(const struct server *server, size_t i,
	const struct listen_address *listen, struct buffer *url)
{
	char own[INET6_ADDRSTRLEN];
	struct buffer text = {0};
	bool is_any4 = strcmp(listen->host, "0.0.0.0") == 0;
	bool is_any6 = strcmp(listen->host, "::") == 0;
	if (listen->is_metrics || listen->scheme == LISTEN_NODE || listen->scheme == LISTEN_UNIX ||
		is_loopback_name(listen->host)) {
		return false;
	}
	server_append_url(server, i, &text);
	if (!is_any4 && !is_any6) {
		buffer_append(url, text.data, text.len);
	} else if (find_own_address(is_any4 ? AF_INET : AF_INET6, own)) {
		const char *scheme_end = strstr(buffer_cstr(&text), "://") + strlen("://");
		const char *port = strrchr(scheme_end, ':');
		buffer_append(url, text.data, (size_t)(scheme_end - text.data));
		buffer_printf(url, is_any4 ? "%s%s" : "[%s]%s", own, port);
	}
	buffer_finish(&text);
	return url->len > 0;
}

/** Finds the URL for a phone. Returns NULL, or why there is none, with advice (static text). */
static const char *choose_url(
	const struct config *config, const struct server *server, struct buffer *url)
{
	if (config->url && is_loopback_name(strstr(config->url, "://") + strlen("://"))) {
		return "--url is an address that only this machine reaches: a phone needs another one";
	}
	if (config->url) {
		buffer_append_str(url, config->url);
		return NULL;
	}
	for (size_t i = 0; i < config->listen_count && !url->len; i++) {
		append_phone_url(server, i, &config->listen[i], url);
	}
	if (!url->len) {
		return "only this machine reaches the server: listen on an address that the phone reaches too, or give --url behind a proxy; docs/remote-access.md describes how";
	}
	return config->trust.hosts
		       ? "with --allow-host, give the address that the phone opens as --url"
		       : NULL;
}

/* --- the code --- */

static bool is_dark(const QRcode *code, int x, int y)
{
	bool is_inside = x >= 0 && y >= 0 && x < code->width && y < code->width;
	return is_inside && (code->data[y * code->width + x] & 1);
}

/**
 * Appends a code with two modules in each character, one above the other. It is always black on
 * white, whatever the terminal's colours, since not every reader accepts an inverted code.
 */
static void append_code(struct buffer *out, const QRcode *code)
{
	static const char *const shapes[] = {" ", "▀", "▄", "█"};
	for (int y = -QUIET; y < code->width + QUIET; y += 2) {
		buffer_append_str(out, "\x1b[38;5;16;48;5;231m");
		for (int x = -QUIET; x < code->width + QUIET; x++) {
			buffer_append_str(
				out, shapes[is_dark(code, x, y) + 2 * is_dark(code, x, y + 1)]);
		}
		buffer_append_str(out, "\x1b[0m\n");
	}
}

static void print_code(const char *link)
{
	struct buffer text = {0};
	QRcode *code = QRcode_encodeString8bit(link, 0, QR_ECLEVEL_L);
	if (!code) {
		diag(DIAG_WARN, "--qr: the link is too long for a code");
		return;
	}
	append_code(&text, code);
	fwrite(text.data, 1, text.len, stderr);
	QRcode_free(code);
	buffer_finish(&text);
}

void relay_show_qr(const struct config *config, const struct server *server)
{
	struct buffer url = {0};
	char *why = NULL;
	char *token = NULL;
	const char *fault = choose_url(config, server, &url);
	if (!fault && !isatty(STDERR_FILENO)) {
		fault = "stderr is not a terminal, and the link must not be logged";
	}
	if (!fault && !config->auth_off) {
		token = access_read_token(config->data_dir, &why);
		fault = token ? NULL : why ? why : "the access token cannot be read";
	}
	if (fault) {
		diag(DIAG_WARN, "--qr: no code is shown: %s", fault);
	} else {
		diag_say("this code opens %s on a phone, and logs in", buffer_cstr(&url));
		if (token) {
			buffer_printf(&url, "/#token=%s", token);
		}
		print_code(buffer_cstr(&url));
	}
	free(why);
	free(token);
	buffer_finish(&url);
}
