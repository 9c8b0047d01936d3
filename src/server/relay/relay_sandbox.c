#include "relay_sandbox.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"
#include "holdfast/server_filter.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Descriptors for everything but connections: files of sessions, agents and their terminals. */
#define FILES_WANTED 8192

/* Settings of the allocator (bytes). */
#define HEAP_KEPT_MAX (8 << 20) /* free memory kept at the end of the heap */
#define MAPPED_MIN    (1 << 20) /* larger blocks are mappings of their own */

int relay_make_data_dir(const struct config *config, char **ret_why)
{
	if (!config->store || mkdir(config->data_dir, 0700) == 0 || errno == EEXIST) {
		return 0;
	}
	*ret_why =
		xprintf("cannot make the data directory %s: %s", config->data_dir, strerror(errno));
	return -1;
}

int relay_confine(const struct config *config, char **ret_why)
{
	const char *lack = config->seccomp == SECCOMP_OFF ? "--seccomp off" : server_filter_lack();
	int err = lack ? 0 : server_filter();
	if (err < 0) {
		bool is_old = err == -EINVAL || err == -ENOSYS || err == -EOPNOTSUPP;
		lack = is_old ? "this kernel does not have it" : strerror(-err);
	}
	if (lack && config->seccomp == SECCOMP_ON) {
		*ret_why = xprintf("--seccomp on: %s", lack);
		return -1;
	}
	if (lack) {
		diag(DIAG_INFO, "the server itself is not under seccomp: %s", lack);
	} else {
		diag(DIAG_INFO,
			"the server itself is under seccomp: it starts no program, and signals no other process");
	}
	return 0;
}

/** Disables core files, which would contain tokens. */
static void forbid_core_files(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_CORE, &limit) == 0) {
		limit.rlim_cur = 0;
		setrlimit(RLIMIT_CORE, &limit);
	}
}

/**
 * Raises the limit of descriptors as far as it can be of use and the system allows. It is not
 * higher because Debian's libwebsockets searches a table of that size for each socket that closes.
 */
static void set_descriptor_limit(const struct limits *limits)
{
	struct rlimit limit;
	rlim_t wanted = (rlim_t)limits->connections + limits->descriptor_reserve + FILES_WANTED;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

void relay_limit_process(const struct limits *limits)
{
	forbid_core_files();
	set_descriptor_limit(limits);
}

void relay_keep_heap(void)
{
	mallopt(M_TRIM_THRESHOLD, HEAP_KEPT_MAX);
	mallopt(M_MMAP_THRESHOLD, MAPPED_MIN);
}
