#include "holdfast/call_filter.h"

#include <errno.h>
#include <linux/ioprio.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define OPEN_TREE_ATTR 467 /* Linux 6.15; the same on all machines */

/* Reach into another process, beyond what its user may always do; or into the kernel. */
static const int of_others[] = {
	SCMP_SYS(process_madvise),
	SCMP_SYS(process_mrelease),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(migrate_pages),
	SCMP_SYS(move_pages),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(bpf),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(modify_ldt),
	SCMP_SYS(setns),
};

/* Reach what all processes of the user share, and no path leads to. */
static const int of_no_file[] = {
	SCMP_SYS(keyctl),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
	SCMP_SYS(shmget),
	SCMP_SYS(shmat),
	SCMP_SYS(shmctl),
	SCMP_SYS(shmdt),
	SCMP_SYS(semget),
	SCMP_SYS(semop),
	SCMP_SYS(semtimedop),
	SCMP_SYS(semctl),
	SCMP_SYS(msgget),
	SCMP_SYS(msgsnd),
	SCMP_SYS(msgrcv),
	SCMP_SYS(msgctl),
	SCMP_SYS(mq_open),
	SCMP_SYS(mq_unlink),
};

static const int of_mounts[] = {
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(pivot_root),
	SCMP_SYS(move_mount),
	SCMP_SYS(open_tree),
	OPEN_TREE_ATTR,
	SCMP_SYS(fsopen),
	SCMP_SYS(fsconfig),
	SCMP_SYS(fsmount),
	SCMP_SYS(fspick),
	SCMP_SYS(mount_setattr),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(fanotify_init),
};

static const int of_system[] = {
	SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(reboot),
	SCMP_SYS(swapon),
	SCMP_SYS(swapoff),
	SCMP_SYS(acct),
	SCMP_SYS(quotactl),
	SCMP_SYS(quotactl_fd),
	SCMP_SYS(syslog),
	SCMP_SYS(sethostname),
	SCMP_SYS(setdomainname),
	SCMP_SYS(settimeofday),
	SCMP_SYS(clock_settime),
	SCMP_SYS(clock_adjtime),
	SCMP_SYS(adjtimex),
	SCMP_SYS(vhangup),
	SCMP_SYS(iopl),
	SCMP_SYS(ioperm),
};

/* Their first argument is a process: 0 is the own one, and a filter knows no other number of it. */
static const int of_own_process[] = {
	SCMP_SYS(prlimit64),
	SCMP_SYS(sched_setaffinity),
	SCMP_SYS(sched_setscheduler),
	SCMP_SYS(sched_setparam),
	SCMP_SYS(sched_setattr),
};

struct call_filter call_filter_begin(int error)
{
	struct call_filter filter = {
		.ctx = seccomp_init(error ? SCMP_ACT_ERRNO((uint32_t)error) : SCMP_ACT_ALLOW)};
	filter.err = filter.ctx ? 0 : -ENOMEM;
	if (filter.err == 0) {
		filter.err = seccomp_attr_set(
			filter.ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
	}
	if (filter.err == 0) { /* errors as the kernel gives them */
		filter.err = seccomp_attr_set(filter.ctx, SCMP_FLTATR_API_SYSRAWRC, 1);
	}
	return filter;
}

static void add(struct call_filter *filter, uint32_t action, int call, unsigned count,
	const struct scmp_arg_cmp *comparisons)
{
	if (filter->err == 0 &&
		call >= 0) { /* libseccomp gives negative numbers to what is missing */
		filter->err = seccomp_rule_add_array(filter->ctx, action, call, count, comparisons);
	}
}

void call_filter_allow(struct call_filter *filter, int call)
{
	add(filter, SCMP_ACT_ALLOW, call, 0, NULL);
}

void call_filter_refuse_if(struct call_filter *filter, int call, int error, unsigned count,
	const struct scmp_arg_cmp *comparisons)
{
	add(filter, SCMP_ACT_ERRNO((uint32_t)error), call, count, comparisons);
}

void call_filter_refuse(struct call_filter *filter, const int *calls, size_t count, int error)
{
	for (size_t i = 0; i < count; i++) {
		add(filter, SCMP_ACT_ERRNO((uint32_t)error), calls[i], 0, NULL);
	}
}

#define REFUSE(filter, list) call_filter_refuse(filter, list, sizeof(list) / sizeof(list[0]), EPERM)
#define REFUSE_IF(filter, call, ...) \
	call_filter_refuse_if(       \
		filter, SCMP_SYS(call), EPERM, 1, (const struct scmp_arg_cmp[]){__VA_ARGS__})

void call_filter_refuse_common(struct call_filter *filter)
{
	REFUSE(filter, of_others);
	REFUSE(filter, of_no_file);
	REFUSE(filter, of_mounts);
	REFUSE(filter, of_system);
	for (size_t i = 0; i < sizeof(of_own_process) / sizeof(of_own_process[0]); i++) {
		call_filter_refuse_if(filter, of_own_process[i], EPERM, 1,
			(const struct scmp_arg_cmp[]){CALL_IS_NOT(0, 0)});
	}
	/* Of one process, and of the own one: not of a group or of a user. */
	REFUSE_IF(filter, setpriority, CALL_IS_NOT(0, PRIO_PROCESS));
	REFUSE_IF(filter, setpriority, CALL_IS_NOT(1, 0));
	REFUSE_IF(filter, ioprio_set, CALL_IS_NOT(0, IOPRIO_WHO_PROCESS));
	REFUSE_IF(filter, ioprio_set, CALL_IS_NOT(1, 0));
	REFUSE_IF(filter, prctl, CALL_IS(0, PR_SCHED_CORE));
}

int call_filter_end(struct call_filter *filter, bool all_threads)
{
	if (filter->err == 0 && all_threads) {
		filter->err = seccomp_attr_set(filter->ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	}
	if (filter->err == 0) {
		filter->err = seccomp_load(filter->ctx);
	}
	seccomp_release(filter->ctx);
	filter->ctx = NULL;
	return filter->err;
}
