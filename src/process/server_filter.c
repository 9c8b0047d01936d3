#include "holdfast/server_filter.h"

#include "bpf.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

#ifdef ARCH

/* Refused whatever their arguments are. Calls that a machine does not have are left out. */
static const uint32_t refused[] = {
	/* Starting programs and processes. */
	SYS_execve,
	SYS_execveat,
#ifdef SYS_fork
	SYS_fork,
	SYS_vfork,
#endif
	/* Accessing other processes; kill() and tgkill() are handled below. */
	SYS_tkill,
	SYS_rt_sigqueueinfo,
	SYS_rt_tgsigqueueinfo,
	SYS_pidfd_send_signal,
	SYS_pidfd_getfd,
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_process_madvise,
	SYS_kcmp,
	/* Mounts and namespaces. */
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_move_mount,
	SYS_open_tree,
	SYS_fsopen,
	SYS_fsconfig,
	SYS_fsmount,
	SYS_fspick,
	SYS_mount_setattr,
	SYS_unshare,
	SYS_setns,
	SYS_open_by_handle_at,
	/* Rarely needed, and often the place of kernel vulnerabilities. */
	SYS_bpf,
	SYS_perf_event_open,
	SYS_userfaultfd,
	SYS_io_uring_setup,
	SYS_io_uring_register,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	SYS_personality,
#ifdef SYS_modify_ldt
	SYS_modify_ldt,
#endif
	/* Identity. */
	SYS_setuid,
	SYS_setgid,
	SYS_setreuid,
	SYS_setregid,
	SYS_setresuid,
	SYS_setresgid,
	SYS_setfsuid,
	SYS_setfsgid,
	SYS_setgroups,
	SYS_capset,
	/* The whole system. */
	SYS_kexec_load,
	SYS_kexec_file_load,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_reboot,
	SYS_swapon,
	SYS_swapoff,
	SYS_acct,
	SYS_quotactl,
	SYS_syslog,
	SYS_sethostname,
	SYS_setdomainname,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_clock_adjtime,
	SYS_adjtimex,
	SYS_vhangup,
#ifdef SYS_iopl
	SYS_iopl,
	SYS_ioperm,
#endif
};

#define REFUSED_COUNT (sizeof(refused) / sizeof(refused[0]))

/** Installs a filter for all threads at once. Returns 0 or a negative errno. */
static int install(struct sock_filter *filter, size_t count)
{
	struct sock_fprog program = {.len = (unsigned short)count, .filter = filter};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
		return -errno;
	}
	long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
	/* A positive result is the id of a thread that has a different filter. */
	return r < 0 ? -errno : r > 0 ? -EBUSY : 0;
}

int server_filter(void)
{
	uint32_t self = (uint32_t)getpid();
	struct sock_filter head[] = {
		LOAD(arch),
		SKIP_IF(BPF_JEQ, ARCH, 1),
		ANSWER(ENOSYS),
		LOAD(nr),
		SKIP_UNLESS(BPF_JGE, X32_BIT, 1),
		ANSWER(ENOSYS),
		/*
		 * A filter cannot see its flags. On ENOSYS the C library falls back to clone(), for
		 * threads.
		 */
		SKIP_UNLESS(BPF_JEQ, SYS_clone3, 1),
		ANSWER(ENOSYS),
		SKIP_UNLESS(BPF_JEQ, SYS_clone, 4),
		LOAD(args[0]),
		SKIP_UNLESS(BPF_JSET, CLONE_THREAD, 1),
		ALLOW,
		ANSWER(EPERM),
		/*
		 * Allowed: any signal to the server itself, and signal 0, which tests whether a
		 * process exists.
		 */
		SKIP_UNLESS(BPF_JEQ, SYS_kill, 4),
		LOAD(args[1]),
		SKIP_IF(BPF_JEQ, 0, 5), /* to ALLOW */
		LOAD(args[0]),
		BPF_STMT(BPF_JMP | BPF_JA, 2), /* to the comparison */
		SKIP_UNLESS(BPF_JEQ, SYS_tgkill, 4),
		LOAD(args[0]),
		SKIP_UNLESS(BPF_JEQ, self, 1),
		ALLOW,
		ANSWER(EPERM),
	};
	enum { HEAD = sizeof(head) / sizeof(head[0]) };
	struct sock_filter filter[HEAD + 2 * REFUSED_COUNT + 1];
	size_t count = 0;
	for (; count < HEAD; count++) {
		filter[count] = head[count];
	}
	for (size_t i = 0; i < REFUSED_COUNT; i++) {
		filter[count++] = (struct sock_filter)SKIP_UNLESS(BPF_JEQ, refused[i], 1);
		filter[count++] = (struct sock_filter)ANSWER(EPERM);
	}
	filter[count++] = (struct sock_filter)ALLOW;
	return install(filter, count);
}

#else

int server_filter(void)
{
	return -ENOSYS;
}

#endif
