#include "config_trust.h"

#include "holdfast/buffer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LEN 253

void list_add_text(char ***list, const char *text)
{
	size_t count = 0;
	while (*list && (*list)[count]) {
		count++;
	}
	*list = xrealloc(*list, (count + 2) * sizeof(**list));
	(*list)[count] = xstrdup(text);
	(*list)[count + 1] = NULL;
}

void list_free_texts(char **list)
{
	for (char **at = list; at && *at; at++) {
		free(*at);
	}
	free(list);
}

/** Returns the length of the host name in lower case, or address, that begins `text`, or 0. */
static size_t host_len(const char *text)
{
	struct address address;
	size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-");
	if (*text == '[') {
		len = strcspn(text, "]") + 1;
		return text[len - 1] == ']' && address_parse(text, len, &address) ? len : 0;
	}
	return len <= NAME_MAX_LEN ? len : 0;
}

/** Whether `port` is the default port of the origin's scheme, which browsers leave out. */
static bool is_default_port(const char *origin, const char *port)
{
	return (strncmp(origin, "https:", 6) == 0 && strcmp(port, ":443") == 0) ||
	       (strncmp(origin, "http:", 5) == 0 && strcmp(port, ":80") == 0);
}

const char *trust_add_origin(const struct option_row *row, void *place, const char *text)
{
	struct server_trust *trust = place;
	size_t scheme = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.+-");
	const char *host = text + scheme + 3;
	if (strcmp(text, "*") == 0) {
		list_add_text(&trust->origins, text);
		return NULL;
	}
	if (!scheme || !islower((unsigned char)*text) || strncmp(text + scheme, "://", 3) != 0 ||
		!host_len(host)) {
		return "give one origin as browsers send it, such as https://app.example.org: a scheme, a name in lower case, perhaps a port, and no path";
	}
	const char *port = host + host_len(host);
	size_t digits = *port == ':' ? strspn(port + 1, "0123456789") : 0;
	if (*port && (digits < 1 || digits > 5 || port[1 + digits] || port[1] == '0' ||
			     atoi(port + 1) > 65535)) {
		return "behind the name there may be a port, and nothing else";
	}
	if (is_default_port(text, port)) {
		return "leave the port out: browsers do";
	}
	list_add_text(&trust->origins, text);
	return NULL;
}

const char *trust_add_host(const struct option_row *row, void *place, const char *text)
{
	struct server_trust *trust = place;
	size_t len = host_len(text);
	if (!len || text[len]) {
		return "give one name in lower case, such as holdfast.example.org, without a port; an IPv6 address in brackets";
	}
	list_add_text(&trust->hosts, text);
	return NULL;
}

const char *trust_add_proxy(const struct option_row *row, void *place, const char *text)
{
	struct server_trust *trust = place;
	struct address_range range;
	if (strcmp(text, "unix") == 0) {
		trust->trusts_unix = true;
		return NULL;
	}
	if (!address_range_parse(text, &range)) {
		return "give an address, such as 127.0.0.1, or a range, such as 10.0.0.0/8, or unix";
	}
	trust->proxies =
		xrealloc(trust->proxies, (trust->proxy_count + 1) * sizeof(*trust->proxies));
	trust->proxies[trust->proxy_count++] = range;
	return NULL;
}

void trust_finish(struct server_trust *trust)
{
	list_free_texts(trust->origins);
	list_free_texts(trust->hosts);
	free(trust->proxies);
	*trust = (struct server_trust){0};
}
