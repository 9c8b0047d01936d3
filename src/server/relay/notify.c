#include "notify.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct notify {
	int fd;
	uv_timer_t *timer; /* for the watchdog; NULL: no watchdog */
	bool (*is_well)(void *arg);
	void *arg;
};

/** Sends a state. Does not wait if the socket is full: the datagram is then dropped. */
static void tell(const struct notify *notify, const char *state)
{
	if (send(notify->fd, state, strlen(state), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		diag(DIAG_DEBUG, "the service manager cannot be told %s: %s", state,
			strerror(errno));
	}
}

static void handle_timer(uv_timer_t *timer)
{
	const struct notify *notify = timer->data;
	if (notify->is_well(notify->arg)) {
		tell(notify, "WATCHDOG=1");
	}
}

/** Returns a connected socket, or a negative errno. A path with @ in front is an abstract one. */
static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(path);
	if ((*path != '/' && *path != '@') || len >= sizeof(address.sun_path)) {
		return -EINVAL;
	}
	memcpy(address.sun_path, path, len);
	address.sun_path[0] = *path == '@' ? '\0' : '/';
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	if (connect(fd, (const struct sockaddr *)&address, size) < 0) {
		int r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

/** Returns the watchdog's timeout (ms), or 0 if no watchdog watches this process. */
static uint64_t watchdog_ms(void)
{
	const char *usec = getenv("WATCHDOG_USEC");
	const char *pid = getenv("WATCHDOG_PID");
	bool is_ours = !pid || strtol(pid, NULL, 10) == (long)getpid();
	return usec && is_ours ? strtoull(usec, NULL, 10) / 1000 : 0;
}

struct notify *notify_create(uv_loop_t *loop, bool (*is_well)(void *arg), void *arg)
{
	const char *path = getenv("NOTIFY_SOCKET");
	if (!path || !*path) {
		return NULL;
	}
	int fd = connect_to(path);
	if (fd < 0) {
		diag(DIAG_WARN, "NOTIFY_SOCKET %s cannot be used: %s", path, strerror(-fd));
		return NULL;
	}
	struct notify *notify = xcalloc(1, sizeof(*notify));
	*notify = (struct notify){.fd = fd, .is_well = is_well, .arg = arg};
	uint64_t ms = watchdog_ms() / 2;
	if (ms) {
		notify->timer = loop_timer(loop, notify);
		uv_timer_start(notify->timer, handle_timer, ms, ms);
	}
	return notify;
}

void notify_ready(struct notify *notify)
{
	if (notify) {
		tell(notify, "READY=1");
	}
}

void notify_stopping(struct notify *notify)
{
	if (notify) {
		tell(notify, "STOPPING=1");
	}
}

void notify_destroy(struct notify *notify)
{
	if (!notify) {
		return;
	}
	if (notify->timer) {
		loop_close(notify->timer);
	}
	close(notify->fd);
	free(notify);
}
