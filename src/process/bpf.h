/* Private to src/process: the words of a seccomp filter, and which machine it is for. */
#ifndef HOLDFAST_BPF_H
#define HOLDFAST_BPF_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

/* Where it is not defined, the numbers of system calls are not known, and there are no filters. */
#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#define X32_BIT 0x40000000U /* of the numbers of x86-64's second set of system calls */

#define LOAD(field)             BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(error)           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define SKIP_UNLESS(test, k, n) BPF_JUMP(BPF_JMP | (test) | BPF_K, k, 0, n)
#define SKIP_IF(test, k, n)     BPF_JUMP(BPF_JMP | (test) | BPF_K, k, n, 0)

#endif
