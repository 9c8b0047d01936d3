/*
 * The sandbox of agents and their commands: the kernel's Landlock confines them to the files that
 * they are granted, whatever they run, and they cannot gain privileges. docs/sandbox.md says what
 * this protects and what it does not. The server itself is not in the sandbox.
 */
#ifndef HOLDFAST_SANDBOX_H
#define HOLDFAST_SANDBOX_H

#include <stdbool.h>

/* Lists end with NULL and can be NULL; paths are absolute and contain no symlinks. */
struct sandbox {
	char **reads; /* read-only, in addition to what every program needs */
	char **writes; /* read and write */
	/* each agent can also read and write the directory below one of these that it works in */
	char **roots;
	const char *root; /* that directory for this agent: one of `roots`, or below one */
	const char *tmp; /* a directory of the server in which each agent gets its own TMPDIR */
	bool sockets; /* Unix sockets can be used, wherever they are */
	/* user namespaces can be made; for that, files in /proc can be written (sandbox_shield()) */
	bool namespaces;
};

/** Returns the version of the kernel's Landlock, from 1 on; 0 if it has none. */
int sandbox_version(void);
/**
 * Checks whether agents can be confined this way. They cannot if the kernel has no Landlock, if
 * they could reach one of the server's `secrets`, or if they could change something `trusted` by
 * the server (lists as above; these paths need not exist). The first secret is the server's data
 * directory; its folder `workspace` may be granted. Returns NULL if all is well, else the reason,
 * which the caller frees.
 */
char *sandbox_fault(const struct sandbox *sandbox, char *const *secrets, char *const *trusted);
/**
 * Gives the files of the calling process in /proc to root (PR_SET_DUMPABLE), until it runs another
 * program: for those that agents of the same user must not reach.
 */
void sandbox_shield(void);
/**
 * Confines the calling process and everything it will start, irrevocably, using the features of
 * this version of Landlock. Returns 0, or -1 with errno set and the path or step that failed in
 * *ret_what.
 */
int sandbox_enter(const struct sandbox *sandbox, int version, const char **ret_what);

/** Frees the lists, and removes `tmp`. Call it when the agents are gone. */
void sandbox_finish(struct sandbox *sandbox);

#endif
