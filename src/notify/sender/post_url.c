#include "holdfast/post.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAME_CHARS  "abcdefghijklmnopqrstuvwxyz0123456789.-"
#define TYPED_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"

/* --- URLs --- */

bool post_port_is_valid(const char *text, size_t len)
{
	char digits[8];
	if (!len || len > 5 || strspn(text, "0123456789") < len) {
		return false;
	}
	snprintf(digits, sizeof(digits), "%.*s", (int)len, text);
	return atoi(digits) > 0 && atoi(digits) < 65536;
}

static bool begins(const char *text, const char *scheme, unsigned also)
{
	size_t len = strlen(scheme);
	return also & POST_URL_TYPED ? strncasecmp(text, scheme, len) == 0
				     : strncmp(text, scheme, len) == 0;
}

/** Takes `https://`, or `http://` if allowed. Returns where the host begins, or NULL. */
static const char *take_scheme(const char *text, unsigned also, struct post_url *ret)
{
	ret->is_tls = begins(text, "https://", also);
	if (ret->is_tls) {
		return text + 8;
	}
	return also & POST_URL_PLAIN && begins(text, "http://", also) ? text + 7 : NULL;
}

/** Takes a host name, or an address if allowed. Returns what follows it, or NULL. */
static const char *take_host(const char *text, unsigned also, struct post_url *ret)
{
	bool may_be_address = also & POST_URL_ADDRESS;
	bool is_v6 = may_be_address && *text == '[';
	const char *begin = text + is_v6;
	const char *chars = also & POST_URL_TYPED ? NAME_CHARS TYPED_CHARS : NAME_CHARS;
	size_t len = is_v6 ? strcspn(begin, "]") : strspn(begin, chars);
	if (!len || len >= sizeof(ret->host) || (is_v6 && begin[len] != ']')) {
		return NULL;
	}
	for (size_t i = 0; i < len; i++) {
		ret->host[i] = (char)tolower((unsigned char)begin[i]);
	}
	ret->host[len] = '\0';
	struct address_range range;
	ret->is_literal =
		may_be_address && !strchr(ret->host, '/') && address_range_parse(ret->host, &range);
	if (is_v6 && !ret->is_literal) {
		return NULL;
	}
	return begin + len + is_v6;
}

static void make_origin(struct post_url *url)
{
	bool is_v6 = strchr(url->host, ':') != NULL;
	snprintf(url->origin, sizeof(url->origin), "%s%s%s%s%s%s",
		url->is_tls ? "https://" : "http://", is_v6 ? "[" : "", url->host, is_v6 ? "]" : "",
		url->has_port ? ":" : "", url->has_port ? url->port : "");
}

bool post_url_parse(const char *text, unsigned also, struct post_url *ret)
{
	size_t len = strlen(text);
	for (size_t i = 0; i < len; i++) {
		if (!isgraph((unsigned char)text[i]) || strchr("\"<>\\^`{|}#", text[i])) {
			return false;
		}
	}
	const char *host = len < POST_URL_MAX ? take_scheme(text, also, ret) : NULL;
	const char *rest = host ? take_host(host, also, ret) : NULL;
	const char *path = rest ? rest + strcspn(rest, "/?") : "";
	bool has_path = *path == '/';
	if (!rest || (!has_path && !(also & POST_URL_TYPED)) || (rest != path && *rest != ':') ||
		(*rest == ':' && !post_port_is_valid(rest + 1, (size_t)(path - rest) - 1))) {
		return false;
	}
	const char *usual = ret->is_tls ? "443" : "80";
	snprintf(ret->port, sizeof(ret->port), "%d", atoi(*rest == ':' ? rest + 1 : usual));
	snprintf(ret->path, sizeof(ret->path), "%s%s", has_path ? "" : "/", path);
	ret->has_port = strcmp(ret->port, usual) != 0;
	make_origin(ret);
	return true;
}

/* --- addresses --- */

/** Whether an address is not public: RFC 6890 and its successors. */
static bool is_private(const struct address *address)
{
	static const char *const ranges[] = {"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10",
		"127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "224.0.0.0/3", "2001::/23", "2001:db8::/32", "2002::/16",
		"3fff::/20"};
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

bool post_may_connect(
	const struct address_range *ranges, size_t count, const struct address *address)
{
	for (size_t i = 0; i < count; i++) {
		if (address_is_in(address, &ranges[i])) {
			return true;
		}
	}
	return !is_private(address);
}

/* --- TLS --- */

SSL_CTX *post_tls_create(const char *ca_file)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
	if (tls && (SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) != 1 ||
			   (ca_file && SSL_CTX_load_verify_file(tls, ca_file) != 1))) {
		SSL_CTX_free(tls);
		return NULL;
	}
	return tls;
}

bool post_tls_trust_system(SSL_CTX *tls)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char is_done; /* its address marks a context that has the certificates */
	pthread_mutex_lock(&lock);
	bool does = SSL_CTX_get_app_data(tls) == &is_done;
	if (!does && SSL_CTX_set_default_verify_paths(tls) == 1) {
		does = SSL_CTX_set_app_data(tls, &is_done) == 1;
	}
	pthread_mutex_unlock(&lock);
	return does;
}
