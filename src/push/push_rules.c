/* Where messages may go: hosts that the operator names, and what their URLs look like. */
#include "push_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyz0123456789.-"

/** Digits to the end of the text. */
static bool is_port(const char *text)
{
	size_t digits = strspn(text, "0123456789");
	return digits >= 1 && digits <= 5 && !text[digits] && atoi(text) > 0 && atoi(text) < 65536;
}

const char *push_take_host(struct push_rules *rules, const char *text)
{
	const char *name = text[0] == '*' && text[1] == '.' ? text + 2 : text;
	size_t len = strspn(name, NAME_CHARS);
	size_t count = 0;
	if (strcmp(text, "off") == 0) {
		return NULL;
	}
	if (!len || len > 250 || (name[len] && (name[len] != ':' || !is_port(name + len + 1)))) {
		return "give a name in lower case, such as push.example.org or *.push.example.org, perhaps with a port; or off";
	}
	while (rules->hosts && rules->hosts[count]) {
		count++;
	}
	rules->hosts = xrealloc(rules->hosts, (count + 2) * sizeof(*rules->hosts));
	rules->hosts[count] = xstrdup(text);
	rules->hosts[count + 1] = NULL;
	return NULL;
}

const char *push_take_address(struct push_rules *rules, const char *text)
{
	struct address_range range;
	if (!address_range_parse(text, &range)) {
		return "give an address, such as 10.1.2.3, or a range, such as 10.0.0.0/8";
	}
	rules->addresses =
		xrealloc(rules->addresses, (rules->address_count + 1) * sizeof(*rules->addresses));
	rules->addresses[rules->address_count++] = range;
	return NULL;
}

void push_rules_finish(struct push_rules *rules)
{
	for (char **at = rules->hosts; at && *at; at++) {
		free(*at);
	}
	free(rules->hosts);
	free(rules->addresses);
	*rules = (struct push_rules){0};
}

bool push_url_parse(const char *text, struct push_url *ret)
{
	static const char scheme[] = "https://";
	size_t len = strlen(text);
	for (size_t i = 0; i < len; i++) {
		if (!isgraph((unsigned char)text[i]) || strchr("\"<>\\^`{|}#", text[i])) {
			return false;
		}
	}
	if (len >= PUSH_URL_MAX || strncmp(text, scheme, sizeof(scheme) - 1) != 0) {
		return false;
	}
	const char *host = text + sizeof(scheme) - 1;
	size_t size = strspn(host, NAME_CHARS);
	const char *path = host + strcspn(host, "/?");
	char port[8] = "443";
	ret->has_port = host[size] == ':';
	if (ret->has_port) {
		snprintf(port, sizeof(port), "%.*s", (int)(path - host - (ptrdiff_t)size - 1),
			host + size + 1);
	}
	bool is_whole =
		ret->has_port ? path - host - (ptrdiff_t)size - 1 <= 5 : path == host + size;
	if (!size || size >= sizeof(ret->host) || *path != '/' || !is_whole || !is_port(port)) {
		return false;
	}
	snprintf(ret->host, sizeof(ret->host), "%.*s", (int)size, host);
	snprintf(ret->port, sizeof(ret->port), "%d", atoi(port));
	snprintf(ret->path, sizeof(ret->path), "%s", path);
	ret->has_port = strcmp(ret->port, "443") != 0;
	snprintf(ret->origin, sizeof(ret->origin), "https://%s%s%s", ret->host,
		ret->has_port ? ":" : "", ret->has_port ? ret->port : "");
	return true;
}

static bool matches(const char *rule, const struct push_url *url)
{
	const char *colon = strchr(rule, ':');
	size_t len = colon ? (size_t)(colon - rule) : strlen(rule);
	size_t host = strlen(url->host);
	if (strcmp(colon ? colon + 1 : "443", url->port) != 0) {
		return false;
	}
	if (rule[0] == '*') { /* and a label at least before the dot */
		return host > len - 1 &&
		       memcmp(url->host + host - (len - 1), rule + 1, len - 1) == 0;
	}
	return host == len && memcmp(rule, url->host, len) == 0;
}

bool push_rules_allow(const struct push_rules *rules, const struct push_url *url)
{
	for (char **at = rules->hosts; at && *at; at++) {
		if (matches(*at, url)) {
			return true;
		}
	}
	return false;
}

/* --- addresses --- */

/** Of nobody in the internet: RFC 6890 and those that followed. */
static bool is_private(const struct address *address)
{
	static const char *const ranges[] = {"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10",
		"127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "224.0.0.0/3", "2001::/23", "2001:db8::/32", "2002::/16"};
	static const char *const global[] = {"::ffff:0:0/96", "2000::/3"};
	struct address_range range;
	bool is_global = false;
	for (size_t i = 0; i < sizeof(global) / sizeof(global[0]); i++) {
		is_global = is_global || (address_range_parse(global[i], &range) &&
						 address_is_in(address, &range));
	}
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (!address_range_parse(ranges[i], &range) || address_is_in(address, &range)) {
			return true;
		}
	}
	return !is_global;
}

bool push_rules_allow_address(const struct push_rules *rules, const struct address *address)
{
	for (size_t i = 0; i < rules->address_count; i++) {
		if (address_is_in(address, &rules->addresses[i])) {
			return true;
		}
	}
	return !is_private(address);
}
