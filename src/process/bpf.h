/*
 * Private to src/process: macros for the instructions of a seccomp filter, and the machine's
 * architecture.
 */
#ifndef HOLDFAST_BPF_H
#define HOLDFAST_BPF_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

/* On other machines the numbers of system calls are not known, and no filters are installed. */
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
