#include "process_internal.h"

#include "holdfast/agent_env.h"
#include "holdfast/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* More than the kernel allows for arguments and variables. */
#define ORDERS_MAX  ((size_t)16 * 1024 * 1024)
#define STRINGS_MAX ((size_t)1024 * 1024)

static size_t count_strings(char *const *list)
{
	size_t count = 0;
	while (list && list[count]) {
		count++;
	}
	return count;
}

static void code_string(struct codec *c, char **text)
{
	size_t len;
	if (c->out) {
		pack_bytes(c->out, *text, strlen(*text));
		return;
	}
	const char *bytes = unpack_bytes(&c->in, &len);
	c->in.failed = c->in.failed || memchr(bytes, '\0', len);
	*text = xstrndup(bytes, len);
}

static void code_strings(struct codec *c, char ***list)
{
	size_t count = c->out ? count_strings(*list) : 0;
	CODE(c, count, 4);
	/* Each string takes at least 4 bytes, so an impossible count allocates nothing. */
	if (!c->out && (count > STRINGS_MAX || count > c->in.len / 4)) {
		c->in.failed = true;
		count = 0;
	}
	if (!c->out) {
		*list = xcalloc(count + 1, sizeof(**list));
	}
	for (size_t i = 0; i < count; i++) {
		code_string(c, &(*list)[i]);
	}
}

static void code_orders(struct codec *c, struct orders *orders)
{
	bool has_env = c->out && orders->env;
	CODE(c, orders->is_agent, 1);
	CODE(c, orders->grace_ms, 4);
	code_string(c, &orders->name);
	code_string(c, &orders->dir);
	code_string(c, &orders->root);
	code_strings(c, &orders->args);
	CODE(c, has_env, 1);
	if (has_env) {
		code_strings(c, &orders->env);
	}
}

int orders_write(struct orders *orders)
{
	struct buffer bytes = {0};
	struct codec c = {.out = &bytes};
	code_orders(&c, orders);
	int fd = bytes.len > ORDERS_MAX ? -E2BIG : memfd_create("orders", MFD_CLOEXEC);
	fd = fd == -1 ? -errno : fd;
	size_t done = 0;
	while (fd >= 0 && done < bytes.len) {
		ssize_t n = write(fd, bytes.data + done, bytes.len - done);
		if (n < 0 && errno != EINTR) {
			int err = -errno;
			close(fd);
			fd = err;
		}
		done += n > 0 ? (size_t)n : 0;
	}
	buffer_finish(&bytes);
	return fd;
}

/** Reads the whole file. Returns 0 or a negative errno. */
static int read_all(int fd, struct buffer *bytes)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)ORDERS_MAX) {
		return -EINVAL;
	}
	while (bytes->len < (size_t)st.st_size) {
		size_t left = (size_t)st.st_size - bytes->len;
		buffer_reserve(bytes, left);
		ssize_t n = pread(fd, bytes->data + bytes->len, left, (off_t)bytes->len);
		if (n <= 0) {
			return n < 0 ? -errno : -EINVAL;
		}
		bytes->len += (size_t)n;
	}
	return 0;
}

/** Whether a name is valid: it becomes part of paths. */
static bool is_name(const char *name)
{
	size_t len = strlen(name);
	return len < ORDERS_NAME_SIZE && strspn(name, "0123456789abcdef-") == len;
}

int orders_read(int fd, struct orders *ret_orders)
{
	struct buffer bytes = {0};
	struct orders orders = {0};
	int err = read_all(fd, &bytes);
	if (err == 0) {
		struct codec c = {.in = {.bytes = bytes.data, .len = bytes.len}};
		code_orders(&c, &orders);
		bool fits = !c.in.failed && c.in.len == 0 && is_name(orders.name) &&
			    orders.args[0] && orders.grace_ms >= 0;
		err = fits ? 0 : -EINVAL;
	}
	buffer_finish(&bytes);
	if (err < 0) {
		orders_finish(&orders);
		return err;
	}
	*ret_orders = orders;
	return 0;
}

void orders_finish(struct orders *orders)
{
	free(orders->name);
	free(orders->dir);
	free(orders->root);
	agent_env_free(orders->args);
	agent_env_free(orders->env);
	*orders = (struct orders){0};
}
