#include "holdfast/server_filter.h"

#include "holdfast/call_filter.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
	__has_feature(memory_sanitizer)
#define HAS_SANITIZERS
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZERS
#endif

const char *server_filter_lack(void)
{
#ifdef HAS_SANITIZERS
	return "this build has sanitizers, which need what it refuses";
#else
	return NULL;
#endif
}

/* Refused whatever their arguments are, beside what agents are refused, too. */
static const int refused[] = {
	/* Starting programs and processes. */
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(fork),
	SCMP_SYS(vfork),
	/* Accessing other processes. */
	SCMP_SYS(tkill),
	SCMP_SYS(rt_sigqueueinfo),
	SCMP_SYS(rt_tgsigqueueinfo),
	SCMP_SYS(pidfd_send_signal),
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(kcmp),
	/* Namespaces. */
	SCMP_SYS(chroot),
	SCMP_SYS(unshare),
	/* Rarely needed, and often the place of kernel vulnerabilities. */
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_register),
	SCMP_SYS(personality),
	/* Identity. */
	SCMP_SYS(setuid),
	SCMP_SYS(setgid),
	SCMP_SYS(setreuid),
	SCMP_SYS(setregid),
	SCMP_SYS(setresuid),
	SCMP_SYS(setresgid),
	SCMP_SYS(setfsuid),
	SCMP_SYS(setfsgid),
	SCMP_SYS(setgroups),
	SCMP_SYS(capset),
};

int server_filter(void)
{
	static const int without_flags[] = {SCMP_SYS(clone3)};
	scmp_datum_t self = (scmp_datum_t)getpid();
	struct call_filter filter = call_filter_begin(0);
	call_filter_refuse_common(&filter);
	call_filter_refuse(&filter, refused, sizeof(refused) / sizeof(refused[0]), EPERM);
	/* A filter cannot see its flags. On ENOSYS the C library falls back to clone(), for threads. */
	call_filter_refuse(&filter, without_flags, 1, ENOSYS);
	call_filter_refuse_if(&filter, SCMP_SYS(clone), EPERM, 1,
		(const struct scmp_arg_cmp[]){CALL_HAS(0, CLONE_THREAD, 0)});
	/*
	 * Allowed: any signal to the server itself, and signal 0, which tests whether a process
	 * exists.
	 */
	call_filter_refuse_if(&filter, SCMP_SYS(kill), EPERM, 2,
		(const struct scmp_arg_cmp[]){CALL_IS_NOT(0, self), CALL_IS_NOT(1, 0)});
	call_filter_refuse_if(&filter, SCMP_SYS(tgkill), EPERM, 1,
		(const struct scmp_arg_cmp[]){CALL_IS_NOT(0, self)});
	return call_filter_end(&filter, true);
}
