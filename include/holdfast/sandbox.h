/*
 * The sandbox of agents and their commands: the kernel's Landlock keeps them to the files that they
 * are granted, whatever they run, and they get no new privileges. docs/sandbox.md says what this
 * protects and what not. The server itself is not in it.
 */
#ifndef HOLDFAST_SANDBOX_H
#define HOLDFAST_SANDBOX_H

#include <stdbool.h>

/* Lists end with NULL, and may be NULL for none; paths are absolute, without symlinks. */
struct sandbox {
	char **reads; /* besides what every program needs */
	char **writes; /* and read */
	char **roots; /* each agent may write, too, what is below the one directory of these that it works in */
	const char *root; /* that directory, of this agent: it is one of `roots` or below one */
	const char *tmp; /* a directory of ours, where each agent gets its own TMPDIR */
	bool sockets; /* Unix sockets may be used, wherever they are */
};

/** The version of the kernel's Landlock, from 1; 0: it has none. */
int sandbox_version(void);
/**
 * Why agents cannot be confined so: the kernel has no Landlock, or they would get at one of the
 * server's `secrets`, or could change what is `trusted` by it (lists as above, of paths that need not
 * exist). The first secret is its data directory, of which the folder `workspace` may be granted.
 * NULL: they can. The caller frees it.
 */
char *sandbox_fault(const struct sandbox *sandbox, char *const *secrets, char *const *trusted);
/**
 * Confines the calling process and all that it will start, for good, with what a Landlock of this
 * version has. 0, or -1 with errno and the path or the step that failed in *ret_what.
 */
int sandbox_enter(const struct sandbox *sandbox, int version, const char **ret_what);

#endif
