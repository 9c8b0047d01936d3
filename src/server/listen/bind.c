#include "bind.h"

#include "inherit.h"

#include "holdfast/buffer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Attempts to find a port that is free at all addresses of a name. */
#define FREE_PORT_TRIES 20

union sock_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* --- addresses --- */

static bool is_loopback(const union sock_address *address)
{
	if (address->any.sa_family == AF_INET) {
		return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
	}
	return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

static int get_port(const union sock_address *address)
{
	return ntohs(
		address->any.sa_family == AF_INET ? address->v4.sin_port : address->v6.sin6_port);
}

static void set_port(union sock_address *address, int port)
{
	if (address->any.sa_family == AF_INET) {
		address->v4.sin_port = htons((uint16_t)port);
	} else {
		address->v6.sin6_port = htons((uint16_t)port);
	}
}

static bool is_same_host(const union sock_address *a, const union sock_address *b)
{
	if (a->any.sa_family != b->any.sa_family) {
		return false;
	}
	return a->any.sa_family == AF_INET
		       ? a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr
		       : memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(struct in6_addr)) == 0;
}

static void say_why(char **ret_why, const struct listen_address *address, int error)
{
	bool is_v6 = strchr(address->host, ':') != NULL;
	const char *hint = error == EADDRINUSE ? "choose another port, or 0 for a free one"
			   : error == EACCES
				   ? "ports below 1024 need a privilege; choose a higher port"
			   : error == EADDRNOTAVAIL ? "this machine does not have this address"
						    : "see --listen in holdfast serve --help";
	*ret_why = xprintf("cannot listen on %s%s%s:%d: %s; %s", is_v6 ? "[" : "", address->host,
		is_v6 ? "]" : "", address->port, strerror(error), hint);
}

/**
 * Binds exactly the address that was asked for. Returns the socket or a negative errno; sets the
 * port that was assigned.
 */
static int bind_one(union sock_address *address)
{
	int on = 1;
	union sock_address bound = {0};
	socklen_t size = sizeof(bound);
	socklen_t len =
		address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->any.sa_family == AF_INET6) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	}
	int error = 0;
	if (bind(fd, &address->any, len) < 0 || listen(fd, SOMAXCONN) < 0 ||
		getsockname(fd, &bound.any, &size) < 0) {
		error = -errno;
	} else if (!is_same_host(address, &bound)) {
		error = -EADDRNOTAVAIL;
	}
	if (error) {
		close(fd);
		return error;
	}
	set_port(address, get_port(&bound));
	return fd;
}

/**
 * Binds all addresses at one port: `port`, or a free one if it is 0. Returns a negative errno on
 * failure.
 */
static int bind_all(const union sock_address *addresses, size_t count, int port,
	struct inherited_sockets *inherited, struct bound *ret)
{
	*ret = (struct bound){.is_loopback = true};
	for (size_t i = 0; i < count; i++) {
		union sock_address address = addresses[i];
		set_port(&address, port);
		int fd = inherited_find(inherited, &address.any);
		bool is_inherited = fd >= 0;
		fd = fd >= 0 ? fd : bind_one(&address);
		if (fd < 0) {
			while (ret->count) {
				close(ret->fds[--ret->count]);
			}
			return fd;
		}
		port = get_port(&address);
		ret->is_inherited[ret->count] = is_inherited;
		ret->fds[ret->count++] = fd;
		ret->is_loopback = ret->is_loopback && is_loopback(&address);
	}
	ret->port = port;
	return 0;
}

/** Resolves a host. Returns the number of addresses, or -1 with *ret_why set. */
static int resolve(const char *host, union sock_address *addresses, char **ret_why)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *found = NULL;
	int count = 0;
	int r = getaddrinfo(host, NULL, &hints, &found);
	for (struct addrinfo *one = found; one && count < BIND_ADDRESSES_MAX; one = one->ai_next) {
		if ((one->ai_family == AF_INET || one->ai_family == AF_INET6) &&
			one->ai_addrlen <= sizeof(union sock_address)) {
			memcpy(&addresses[count++], one->ai_addr, one->ai_addrlen);
		}
	}
	if (found) {
		freeaddrinfo(found);
	}
	if (!count) {
		*ret_why = xprintf("cannot listen on \"%s\": %s", host,
			r ? gai_strerror(r) : "it has no address");
	}
	return count ? count : -1;
}

/**
 * Drops addresses of a family that this machine has switched off (such as ::1 of localhost), as
 * long as another address is left.
 */
static size_t drop_missing(union sock_address *addresses, size_t count)
{
	size_t kept = 0;
	for (size_t i = 0; i < count && count > 1; i++) {
		union sock_address address = addresses[i];
		set_port(&address, 0);
		int fd = bind_one(&address);
		bool is_off =
			is_loopback(&address) && (fd == -EADDRNOTAVAIL || fd == -EAFNOSUPPORT);
		if (fd >= 0) {
			close(fd);
		}
		if (!is_off) {
			addresses[kept++] = addresses[i];
		}
	}
	return kept ? kept : count;
}

static int bind_host(const struct listen_address *address, struct inherited_sockets *inherited,
	struct bound *ret, char **ret_why)
{
	union sock_address addresses[BIND_ADDRESSES_MAX] = {0};
	int found = resolve(address->host, addresses, ret_why);
	if (found < 0) {
		return -EADDRNOTAVAIL;
	}
	size_t count = drop_missing(addresses, (size_t)found);
	int tries = address->port || count == 1 ? 1 : FREE_PORT_TRIES;
	int r = -EADDRINUSE;
	for (int i = 0; r == -EADDRINUSE && i < tries; i++) {
		r = bind_all(addresses, count, address->port, inherited, ret);
	}
	if (r < 0) {
		say_why(ret_why, address, -r);
	}
	return r;
}

/* --- unix sockets --- */

/**
 * Removes the socket file of a server that was killed. Leaves it alone if it is not a socket, or a
 * server listens there. Returns NULL, or why the path cannot be used.
 */
static const char *remove_stale(const struct sockaddr_un *address)
{
	struct stat st;
	if (lstat(address->sun_path, &st) < 0) {
		return NULL; /* no file; or else bind() reports the error */
	}
	if (!S_ISSOCK(st.st_mode)) {
		return "the path exists and is not a socket";
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return strerror(errno);
	}
	int error = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? errno : 0;
	close(fd);
	if (error != ECONNREFUSED) {
		return error == 0 || error == EAGAIN ? "another server listens there"
						     : strerror(error);
	}
	return unlink(address->sun_path) < 0 ? strerror(errno) : NULL;
}

/** Binds a path, with mode 0600 from the first moment. */
static int bind_path(const struct sockaddr_un *address, struct bound *ret)
{
	struct stat st;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	/* The file gets the mode of the socket. */
	if (fchmod(fd, 0600) < 0 ||
		bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0) {
		int r = -errno;
		close(fd);
		return r;
	}
	int r = listen(fd, SOMAXCONN) < 0 || lstat(address->sun_path, &st) < 0 ? -errno : 0;
	if (r == 0 && (st.st_mode & 0777) != 0600) {
		r = -EPERM;
	}
	if (r < 0) {
		unlink(address->sun_path);
		close(fd);
		return r;
	}
	*ret = (struct bound){
		.fds = {fd}, .count = 1, .is_loopback = true, .dev = st.st_dev, .ino = st.st_ino};
	return 0;
}

static int bind_unix(const struct listen_address *address, struct inherited_sockets *inherited,
	struct bound *ret, char **ret_why)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	size_t len = strlen(address->host);
	if (len >= sizeof(at.sun_path)) {
		*ret_why = xprintf("cannot listen on unix:%s: a path may have at most %zu bytes",
			address->host, sizeof(at.sun_path) - 1);
		return -ENAMETOOLONG;
	}
	memcpy(at.sun_path, address->host, len);
	int fd = inherited_find(inherited, (const struct sockaddr *)&at);
	if (fd >= 0) {
		*ret = (struct bound){
			.fds = {fd}, .count = 1, .is_loopback = true, .is_inherited = {true}};
		return 0;
	}
	const char *why = remove_stale(&at);
	int r = why ? -EADDRINUSE : bind_path(&at, ret);
	if (r < 0) {
		*ret_why = xprintf(
			"cannot listen on unix:%s: %s", address->host, why ? why : strerror(-r));
	}
	return r;
}

void bound_unlink(const struct bound *bound, const struct listen_address *address)
{
	struct stat st;
	if (lstat(address->host, &st) == 0 && st.st_dev == bound->dev && st.st_ino == bound->ino) {
		unlink(address->host);
	}
}

int bind_address(const struct listen_address *address, struct inherited_sockets *inherited,
	struct bound *ret, char **ret_why)
{
	return address->scheme == LISTEN_UNIX ? bind_unix(address, inherited, ret, ret_why)
					      : bind_host(address, inherited, ret, ret_why);
}
