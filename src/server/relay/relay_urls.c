#include "relay_urls.h"

#include "relay_qr.h"

#include "holdfast/access.h"
#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** Replaces the wildcard address in a URL, which cannot be connected to, with loopback. */
static void replace_wildcard(struct buffer *url)
{
	static const char *const names[][2] = {
		{"://0.0.0.0:", "://127.0.0.1:"}, {"://[::]:", "://[::1]:"}};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *at = strstr(buffer_cstr(url), names[i][0]);
		if (at) {
			char *port = xstrdup(at + strlen(names[i][0]));
			url->len = (size_t)(at - url->data);
			buffer_printf(url, "%s%s", names[i][1], port);
			free(port);
		}
	}
}

/** Ranks a URL for commands on this machine: unix sockets first, then HTTP, then HTTPS. */
static int rank_url(const char *url)
{
	return strncmp(url, "unix:", 5) == 0 ? 2 : strncmp(url, "http:", 5) == 0 ? 1 : 0;
}

/** Prints the login link, but only on a terminal: it contains a secret, and must not be logged. */
static void announce_login(const char *data_dir, const char *url)
{
	char *why = NULL;
	char *token = isatty(STDERR_FILENO) ? access_read_token(data_dir, &why) : NULL;
	if (token) {
		diag_say("open %s/#token=%s", url, token);
	} else {
		diag_say("holdfast url --data %s prints the link that logs in", data_dir);
	}
	free(token);
	free(why);
}

/**
 * Chooses the URL for people (empty if it listens on no address for them) and the one for commands.
 * Appends the line to print for each address to `lines`.
 */
static void choose_urls(const struct config *config, const struct server *server,
	struct buffer *people, struct buffer *commands, struct buffer *lines)
{
	struct buffer url = {0};
	if (config->url) {
		buffer_append_str(people, config->url);
	}
	for (size_t i = 0; i < config->listen_count; i++) {
		buffer_clear(&url);
		server_append_url(server, i, &url);
		if (config->listen[i].is_metrics) {
			buffer_printf(lines, "metrics on %s/metrics\n", buffer_cstr(&url));
			continue;
		}
		if (config->listen[i].scheme == LISTEN_NODE) {
			buffer_printf(
				lines, "listening for other nodes on %s\n", buffer_cstr(&url));
			continue;
		}
		buffer_printf(lines, "listening on %s\n", buffer_cstr(&url));
		replace_wildcard(&url);
		const char *text = buffer_cstr(&url);
		if (!people->len && config->listen[i].scheme != LISTEN_UNIX) {
			buffer_append_str(people, text);
		}
		if (!commands->len || rank_url(text) > rank_url(buffer_cstr(commands))) {
			buffer_clear(commands);
			buffer_append_str(commands, text);
		}
	}
	buffer_finish(&url);
}

void relay_announce(const struct config *config, const struct server *server, bool has_access)
{
	struct buffer people = {0};
	struct buffer commands = {0};
	struct buffer lines = {0};
	if (config->durability == DURABILITY_WRITE) {
		diag(DIAG_WARN,
			"--durability=write: acknowledged events survive a crash of holdfast, but not of the machine");
	}
	choose_urls(config, server, &people, &commands, &lines);
	if (has_access && access_write_url(config->data_dir, buffer_cstr(&people),
				  buffer_cstr(&commands)) < 0) {
		diag(DIAG_WARN, "%s/url cannot be written: holdfast url will not know the address",
			config->data_dir);
	}
	/* Printed after the file is written, so that holdfast url works as soon as they appear. */
	for (char *rest = (char *)buffer_cstr(&lines), *line;
		(line = strsep(&rest, "\n")) && *line;) {
		diag_say("%s", line);
	}
	if (has_access && people.len) {
		announce_login(config->data_dir, buffer_cstr(&people));
	}
	if (config->qr) {
		relay_show_qr(config, server);
	}
	buffer_finish(&people);
	buffer_finish(&commands);
	buffer_finish(&lines);
}
