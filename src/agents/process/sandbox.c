#include "holdfast/sandbox.h"

#include "holdfast/agent_env.h"
#include "process_internal.h"

#include "holdfast/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The headers of Debian 12 define only the first two versions; the kernel's numbers never change.
 */
#define FS_EXECUTE    (1ULL << 0)
#define FS_WRITE_FILE (1ULL << 1)
#define FS_READ_FILE  (1ULL << 2)
#define FS_READ_DIR   (1ULL << 3)
#define FS_MAKE_CHAR  (1ULL << 6)
#define FS_MAKE_BLOCK (1ULL << 11)
#define FS_TRUNCATE   (1ULL << 14) /* from version 3 */
#define FS_IOCTL_DEV  (1ULL << 15) /* from version 5 */

#define READ       (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
#define OF_FILES   (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)
#define OF_DEVICES (FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

#define SCOPE_ABSTRACT_SOCKET (1ULL << 0) /* both from version 6 */
#define SCOPE_SIGNAL          (1ULL << 1)

struct ruleset {
	uint64_t fs;
	uint64_t net;
	uint64_t scoped;
};

/*
 * What nearly every program reads. From /etc, only files that are not secret on any system; in
 * /proc, Landlock hides what belongs to processes outside of the sandbox. Paths that do not exist
 * are skipped.
 */
static const char *const usual[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/proc", "/sys/devices/system", "/sys/fs/cgroup", "/etc/alternatives", "/etc/bash.bashrc",
	"/etc/ca-certificates", "/etc/crypto-policies", "/etc/debian_version",
	"/etc/default/locale", "/etc/environment", "/etc/fonts", "/etc/gai.conf", "/etc/gitconfig",
	"/etc/group", "/etc/host.conf", "/etc/hostname", "/etc/hosts", "/etc/inputrc", "/etc/java",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/locale.alias",
	"/etc/localtime", "/etc/magic", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release",
	"/etc/passwd", "/etc/perl", "/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/profile",
	"/etc/profile.d", "/etc/protocols", "/etc/python3", "/etc/python3.11", "/etc/python3.13",
	"/etc/resolv.conf", "/etc/services", "/etc/shells", "/etc/ssh/ssh_config",
	"/etc/ssh/ssh_config.d", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/terminfo",
	"/etc/timezone", NULL};
static const char *const devices[] = {
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", NULL};
/* Below the home directory: git does not start if these exist but cannot be read. */
static const char *const of_home[] = {
	".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes", NULL};

int sandbox_version(void)
{
	long version = syscall(
		SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
	return version > 0 ? (int)version : 0;
}

/** All file access rights that a version knows. */
static uint64_t all_of(int version)
{
	int bits = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;
	return (1ULL << bits) - 1;
}

void sandbox_shield(void)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* --- granting paths --- */

/* Flags of grant(). */
enum {
	NEEDED = 1, /* the path must exist */
	/* refuse symlinks: an agent may have put one there since the path was resolved */
	NO_LINKS = 2,
};

/**
 * Grants access to a path and what is below it. Returns 0, or -1 with errno. A path that does not
 * exist is skipped unless it is NEEDED.
 */
static int grant(int rules, const char *path, uint64_t access, int flags)
{
	struct stat st;
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC, .resolve = flags & NO_LINKS ? RESOLVE_NO_SYMLINKS : 0};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	if (fd < 0) {
		return flags & NEEDED ? -1 : 0;
	}
	struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
	int r = fstat(fd, &st);
	if (r == 0 && !S_ISDIR(st.st_mode)) {
		rule.allowed_access &= OF_FILES;
	}
	if (r == 0) {
		r = (int)syscall(
			SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	}
	int err = errno;
	close(fd);
	errno = err;
	return r;
}

static int grant_each(int rules, char *const *paths, uint64_t access, const char **ret_what)
{
	for (; paths && *paths; paths++) {
		*ret_what = *paths;
		if (grant(rules, *paths, access, NEEDED | NO_LINKS) < 0) {
			return -1;
		}
	}
	return 0;
}

/** Grants the directory that the agent works in, which must be below one of the roots. */
static int grant_root(
	int rules, const struct sandbox *sandbox, uint64_t access, const char **ret_what)
{
	char **root = sandbox->roots;
	while (root && *root && !(sandbox->root && path_is_within(sandbox->root, *root))) {
		root++;
	}
	if (!root || (!*root && !sandbox->root)) {
		return 0;
	}
	*ret_what = sandbox->root;
	if (!*root || strstr(sandbox->root, "/..")) {
		errno = EACCES;
		return -1;
	}
	return grant(rules, sandbox->root, access, NEEDED | NO_LINKS);
}

static int grant_all(int rules, const struct sandbox *sandbox, uint64_t all, const char **ret_what)
{
	const char *given = getenv("HOME");
	char *home = given ? realpath(given, NULL) : NULL;
	char path[PATH_MAX];
	*ret_what = "Landlock";
	int r = 0;
	for (const char *const *at = usual; *at && r == 0; at++) {
		r = grant(rules, *at, READ & all, 0);
	}
	for (const char *const *at = devices; *at && r == 0; at++) {
		r = grant(rules, *at, OF_DEVICES & all, 0);
	}
	for (const char *const *at = of_home; home && *at && r == 0; at++) {
		snprintf(path, sizeof(path), "%s/%s", home, *at);
		r = grant(rules, path, FS_READ_FILE, NO_LINKS);
	}
	free(home);
	if (r == 0) {
		r = grant_each(rules, sandbox->reads, READ & all, ret_what);
	}
	if (r == 0 && sandbox->namespaces) { /* who makes a namespace sets its uid_map there */
		r = grant(rules, "/proc", (READ | FS_WRITE_FILE) & all, 0);
	}
	uint64_t write = all & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK | FS_IOCTL_DEV);
	r = r < 0 ? r : grant_each(rules, sandbox->writes, write, ret_what);
	return r < 0 ? r : grant_root(rules, sandbox, write, ret_what);
}

/* --- entering the sandbox --- */

/**
 * Drops all capabilities: a server that runs as root would pass on rights that Landlock does not
 * restrict.
 */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};
	for (unsigned long cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++) {
	}
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	syscall(SYS_capset, &head, none);
}

int sandbox_enter(const struct sandbox *sandbox, int version, const char **ret_what)
{
	uint64_t all = all_of(version);
	struct ruleset forbidden = {
		.fs = all, .scoped = version >= 6 ? SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL : 0};
	size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
	*ret_what = "Landlock";
	int rules = (int)syscall(SYS_landlock_create_ruleset, &forbidden, size, 0);
	if (rules < 0) {
		return -1;
	}
	int r = grant_all(rules, sandbox, all, ret_what);
	if (r == 0) {
		*ret_what = "the sandbox";
		drop_capabilities();
		r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	}
	if (r == 0) {
		r = (int)syscall(SYS_landlock_restrict_self, rules, 0);
	}
	int err = errno;
	close(rules);
	errno = err;
	return r < 0 ? r : sandbox_filter(sandbox, version >= 3);
}

/* --- checking the configuration --- */

/** Resolves the symlinks in the part of the path that exists. The caller frees the result. */
static char *resolve(const char *path)
{
	char *real = realpath(path, NULL);
	const char *slash = strrchr(path, '/');
	if (real || !slash || slash == path) {
		return real ? real : xstrdup(path);
	}
	char *above = xstrndup(path, (size_t)(slash - path));
	char *dir = resolve(above);
	real = xprintf("%s%s", dir, slash);
	free(above);
	free(dir);
	return real;
}

/**
 * Whether granting `root` gives access to the secret. The data directory's workspace is not secret.
 */
static bool reveals(const char *root, const char *secret, bool is_data)
{
	if (path_is_within(secret, root)) {
		return true;
	}
	char *workspace = xprintf("%s/workspace", secret);
	bool is_open = is_data && path_is_within(root, workspace);
	free(workspace);
	return path_is_within(root, secret) && !is_open;
}

static char *find_revealed(const char *path, char *const *secrets)
{
	char *why = NULL;
	char *root = resolve(path);
	for (size_t i = 0; secrets[i] && !why; i++) {
		char *secret = resolve(secrets[i]);
		if (reveals(root, secret, i == 0)) {
			why = xprintf(
				"--sandbox would not keep agents from %s, because they are granted %s: move one of them out of the other",
				secret, root);
		}
		free(secret);
	}
	free(root);
	return why;
}

static char *find_changed(const char *path, char *const *trusted)
{
	char *why = NULL;
	char *root = resolve(path);
	for (; trusted && *trusted && !why; trusted++) {
		char *own = resolve(*trusted);
		if (path_is_within(own, root)) {
			why = xprintf(
				"with --sandbox agents could change %s, which the server itself uses, because they may write below %s: use another one, elsewhere",
				own, root);
		}
		free(own);
	}
	free(root);
	return why;
}

char *sandbox_fault(const struct sandbox *sandbox, char *const *secrets, char *const *trusted)
{
	char *why = NULL;
	if (sandbox_version() == 0) {
		return xstrdup(
			"--sandbox needs Landlock, which this kernel does not have or has switched off: use Linux 5.13 or newer, with \"landlock\" in the boot option lsm= if there is one; or leave --sandbox out and run the server in a container");
	}
	const char *const *lists[] = {usual, (const char *const *)sandbox->reads,
		(const char *const *)sandbox->writes, (const char *const *)sandbox->roots};
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		for (const char *const *path = lists[i]; path && *path && !why; path++) {
			why = find_revealed(*path, secrets);
		}
	}
	for (size_t i = 2; i < sizeof(lists) / sizeof(lists[0]); i++) {
		for (const char *const *path = lists[i]; path && *path && !why; path++) {
			why = find_changed(*path, trusted);
		}
	}
	return why;
}

void sandbox_finish(struct sandbox *sandbox)
{
	if (sandbox->tmp) {
		rmdir(sandbox->tmp);
	}
	agent_env_free(sandbox->reads);
	agent_env_free(sandbox->writes);
	agent_env_free(sandbox->roots);
	free((char *)sandbox->tmp);
}
