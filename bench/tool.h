/* What the files of the bench share: giving up, the clock, and a look at the server's process. */
#ifndef BENCH_TOOL_H
#define BENCH_TOOL_H

#include <stdint.h>
#include <sys/types.h>

#define NS_PER_SECOND UINT64_C(1000000000)

/**
 * A figure of a run in which something went wrong is worth nothing: says what, and ends the
 * process.
 */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);

/** CLOCK_MONOTONIC. */
uint64_t now_ns(void);

/** A number from the command line. */
uint64_t parse_number(const char *option, const char *text, uint64_t min, uint64_t max);

/** Bytes of resident memory of a process. */
uint64_t process_rss(pid_t pid);
/** Time on the CPU, of all threads, in user and kernel mode. */
uint64_t process_cpu_ns(pid_t pid);
/** Time on the CPU of everything on this machine, and what a hypervisor gave to others. */
uint64_t machine_cpu_ns(void);

/** Takes as many descriptors as the system allows, and checks that they are at least `count`. */
void need_descriptors(uint64_t count);

#endif
