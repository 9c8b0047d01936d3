/*
 * Looks up names. getaddrinfo() cannot be aborted, and a name server that does not answer holds it
 * up for half a minute and more. So it runs on a thread of its own, which whoever waits can leave
 * behind.
 */
#include "post_internal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct lookup {
	atomic_int owners; /* the thread, and who waits for it; the last one frees this */
	int done_fd; /* becomes readable when the thread is done */
	atomic_bool is_done; /* orders the thread's writes before what is read of them */
	char host[sizeof(((struct post_url *)0)->host)];
	char port[sizeof(((struct post_url *)0)->port)];
	int error;
	struct addrinfo *found;
};

static void leave(struct lookup *lookup)
{
	if (atomic_fetch_sub(&lookup->owners, 1) == 1) {
		if (lookup->found) {
			freeaddrinfo(lookup->found);
		}
		close(lookup->done_fd);
		free(lookup);
	}
}

static int find(const char *host, const char *port, struct addrinfo **ret_found)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	*ret_found = NULL;
	return getaddrinfo(host, port, &hints, ret_found) == 0 ? 0 : -EHOSTUNREACH;
}

static void *handle_thread(void *arg)
{
	struct lookup *lookup = arg;
	lookup->error = find(lookup->host, lookup->port, &lookup->found);
	atomic_store(&lookup->is_done, true);
	eventfd_write(lookup->done_fd, 1);
	leave(lookup);
	return NULL;
}

static int wait_for(const struct lookup *lookup, int stop_fd)
{
	struct pollfd fds[] = {
		{.fd = lookup->done_fd, .events = POLLIN}, {.fd = stop_fd, .events = POLLIN}};
	while (poll(fds, 2, -1) < 0) {
		if (errno != EINTR) {
			return -errno;
		}
	}
	bool is_found = !fds[1].revents && atomic_load(&lookup->is_done);
	return is_found ? lookup->error : -ECANCELED;
}

int post_lookup(const struct post_url *url, int stop_fd, struct addrinfo **ret_found)
{
	pthread_t thread;
	int done_fd = url->is_literal ? -1 : eventfd(0, EFD_CLOEXEC);
	if (done_fd < 0) {
		return find(url->host, url->port, ret_found);
	}
	struct lookup *lookup = xcalloc(1, sizeof(*lookup));
	lookup->owners = 2;
	lookup->done_fd = done_fd;
	memcpy(lookup->host, url->host, sizeof(lookup->host));
	memcpy(lookup->port, url->port, sizeof(lookup->port));
	if (pthread_create(&thread, NULL, handle_thread, lookup) != 0) {
		lookup->owners = 1;
		leave(lookup);
		return find(url->host, url->port, ret_found);
	}
	pthread_detach(thread);
	int r = wait_for(lookup, stop_fd);
	*ret_found = r == 0 ? lookup->found : NULL;
	if (r == 0) {
		lookup->found = NULL;
	}
	leave(lookup);
	return r;
}
