/* The hosts and addresses to which the operator allows push messages. */
#include "push_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyz0123456789.-"

const char *push_add_host(struct push_rules *rules, const char *text)
{
	const char *name = text[0] == '*' && text[1] == '.' ? text + 2 : text;
	size_t len = strspn(name, NAME_CHARS);
	size_t count = 0;
	if (strcmp(text, "off") == 0) {
		return NULL;
	}
	const char *port = name[len] == ':' ? name + len + 1 : NULL;
	if (!len || len > 250 ||
		(name[len] && (!port || !post_port_is_valid(port, strlen(port))))) {
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

const char *push_add_address(struct push_rules *rules, const char *text)
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

static bool matches(const char *rule, const struct post_url *url)
{
	const char *colon = strchr(rule, ':');
	size_t len = colon ? (size_t)(colon - rule) : strlen(rule);
	size_t host = strlen(url->host);
	if (strcmp(colon ? colon + 1 : "443", url->port) != 0) {
		return false;
	}
	if (rule[0] == '*') { /* stands for at least one label */
		return host > len - 1 &&
		       memcmp(url->host + host - (len - 1), rule + 1, len - 1) == 0;
	}
	return host == len && memcmp(rule, url->host, len) == 0;
}

bool push_rules_allow(const struct push_rules *rules, const struct post_url *url)
{
	for (char **at = rules->hosts; at && *at; at++) {
		if (matches(*at, url)) {
			return true;
		}
	}
	return false;
}
