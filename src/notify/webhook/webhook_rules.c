/* The options of webhooks: which URLs are accepted, and which addresses their hosts may have. */
#include "webhook_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool parse(const char *text, struct post_url *ret)
{
	return post_url_parse(text, POST_URL_PLAIN | POST_URL_ADDRESS | POST_URL_TYPED, ret);
}

static void add_range(struct address_range **ranges, size_t *count, const char *text)
{
	*ranges = xrealloc(*ranges, (*count + 1) * sizeof(**ranges));
	*count += address_range_parse(text, &(*ranges)[*count]);
}

/** Whether the URL itself names this machine: localhost, or a loopback address. */
static bool is_loopback(const struct post_url *url)
{
	struct address_range four;
	struct address_range six;
	struct address_range host;
	if (strcmp(url->host, "localhost") == 0) {
		return true;
	}
	return url->is_literal && address_range_parse("127.0.0.0/8", &four) &&
	       address_range_parse("::1/128", &six) && address_range_parse(url->host, &host) &&
	       (address_is_in(&host.address, &four) || address_is_in(&host.address, &six));
}

const char *webhook_add_url(struct webhook_rules *rules, const char *text)
{
	struct post_url url;
	size_t count = 0;
	if (!parse(text, &url)) {
		return "give a URL without a user and a fragment, such as https://hooks.example.org/holdfast";
	}
	while (rules->urls[count]) {
		struct post_url other;
		if (parse(rules->urls[count++], &other) && strcmp(other.origin, url.origin) == 0 &&
			strcmp(other.path, url.path) == 0) {
			return "the URL is given twice";
		}
	}
	if (count == WEBHOOK_URLS_MAX) {
		return "at most 8 URLs are allowed";
	}
	rules->urls[count] = xstrdup(text);
	return NULL;
}

const char *webhook_add_address(struct webhook_rules *rules, const char *text)
{
	struct address_range range;
	if (!address_range_parse(text, &range)) {
		return "give an address, such as 10.1.2.3, or a range, such as 10.0.0.0/8";
	}
	add_range(&rules->addresses, &rules->address_count, text);
	return NULL;
}

const char *webhook_url_fault(const struct webhook_rules *rules, const char *text)
{
	struct post_url url;
	if (!parse(text, &url)) {
		return "it is not a valid URL";
	}
	if (!url.is_tls && !is_loopback(&url) && !rules->may_be_plain) {
		return "plain HTTP to another machine has to be allowed with --webhook-http";
	}
	return rules->secret_file ? NULL : "it needs --webhook-secret";
}

/* If the URL itself is that of an address or localhost, this may be private. */
int webhook_url_read(const struct webhook_rules *rules, const char *text, struct post_url *ret,
	struct address_range **ret_addresses, size_t *ret_count)
{
	struct address_range *ranges = NULL;
	size_t count = 0;
	if (!parse(text, ret)) {
		return -EINVAL;
	}
	if (ret->is_literal) {
		add_range(&ranges, &count, ret->host);
	} else if (is_loopback(ret)) {
		add_range(&ranges, &count, "127.0.0.0/8");
		add_range(&ranges, &count, "::1/128");
	}
	for (size_t i = 0; i < rules->address_count; i++) {
		ranges = xrealloc(ranges, (count + 1) * sizeof(*ranges));
		ranges[count++] = rules->addresses[i];
	}
	*ret_addresses = ranges;
	*ret_count = count;
	return 0;
}

void webhook_rules_finish(struct webhook_rules *rules)
{
	for (char **at = rules->urls; *at; at++) {
		free(*at);
	}
	free(rules->addresses);
	*rules = (struct webhook_rules){0};
}
