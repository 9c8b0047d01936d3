#include "inherit.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

/* The first inherited descriptor, see sd_listen_fds(3). */
#define FIRST_FD 3

union any_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un path;
	struct sockaddr_storage room;
};

/** The number in an environment variable, or -1. */
static long read_number(const char *name)
{
	const char *text = getenv(name);
	char *end;
	errno = 0;
	long number = text && *text ? strtol(text, &end, 10) : -1;
	return text && *text && !*end && !errno ? number : -1;
}

void inherited_take(struct inherited_sockets *ret)
{
	long count = read_number("LISTEN_FDS");
	bool is_ours = read_number("LISTEN_PID") == (long)getpid();
	ret->count = 0;
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDNAMES");
	for (int i = 0; is_ours && i < count && i < INHERITED_MAX; i++) {
		int flags = fcntl(FIRST_FD + i, F_GETFD);
		if (flags >= 0 && fcntl(FIRST_FD + i, F_SETFD, flags | FD_CLOEXEC) == 0) {
			ret->fds[ret->count++] = FIRST_FD + i;
		}
	}
}

static bool read_address(int fd, union any_address *ret)
{
	socklen_t size = sizeof(*ret);
	*ret = (union any_address){0};
	return getsockname(fd, &ret->any, &size) == 0;
}

static bool listens(int fd)
{
	int type = 0;
	int accepts = 0;
	socklen_t size = sizeof(type);
	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
	       getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) == 0 && accepts;
}

static bool is_same(const union any_address *a, const struct sockaddr *b)
{
	if (a->any.sa_family != b->sa_family) {
		return false;
	}
	if (b->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)b;
		return a->v4.sin_port == v4->sin_port &&
		       a->v4.sin_addr.s_addr == v4->sin_addr.s_addr;
	}
	if (b->sa_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)b;
		return a->v6.sin6_port == v6->sin6_port &&
		       memcmp(&a->v6.sin6_addr, &v6->sin6_addr, sizeof(v6->sin6_addr)) == 0;
	}
	return b->sa_family == AF_UNIX &&
	       strcmp(a->path.sun_path, ((const struct sockaddr_un *)b)->sun_path) == 0;
}

int inherited_find(struct inherited_sockets *inherited, const struct sockaddr *address)
{
	for (size_t i = 0; inherited && i < inherited->count; i++) {
		union any_address has;
		int fd = inherited->fds[i];
		if (fd >= 0 && listens(fd) && read_address(fd, &has) && is_same(&has, address)) {
			int flags = fcntl(fd, F_GETFL);
			inherited->fds[i] = -1;
			return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -1 : fd;
		}
	}
	return -1;
}

bool inherited_left(const struct inherited_sockets *inherited, char **ret_address)
{
	for (size_t i = 0; inherited && i < inherited->count; i++) {
		union any_address has;
		char text[INET6_ADDRSTRLEN] = "";
		if (inherited->fds[i] < 0) {
			continue;
		}
		bool is_known = read_address(inherited->fds[i], &has);
		if (is_known && has.any.sa_family == AF_INET) {
			inet_ntop(AF_INET, &has.v4.sin_addr, text, sizeof(text));
			*ret_address = xprintf("%s:%d", text, ntohs(has.v4.sin_port));
		} else if (is_known && has.any.sa_family == AF_INET6) {
			inet_ntop(AF_INET6, &has.v6.sin6_addr, text, sizeof(text));
			*ret_address = xprintf("[%s]:%d", text, ntohs(has.v6.sin6_port));
		} else if (is_known && has.any.sa_family == AF_UNIX && has.path.sun_path[0]) {
			*ret_address = xprintf("unix:%s", has.path.sun_path);
		} else {
			*ret_address = xprintf("descriptor %d", inherited->fds[i]);
		}
		return true;
	}
	return false;
}
