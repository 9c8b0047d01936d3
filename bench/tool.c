#include "tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void die(const char *fmt, ...)
{
	va_list args;
	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SECOND + (uint64_t)ts.tv_nsec;
}

uint64_t parse_number(const char *option, const char *text, uint64_t min, uint64_t max)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || value < min || value > max) {
		die("%s takes a number from %llu to %llu, not \"%s\"", option,
			(unsigned long long)min, (unsigned long long)max, text);
	}
	return value;
}

static void read_text(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "re");
	size_t len = file ? fread(text, 1, size - 1, file) : 0;
	if (!len) {
		die("cannot read %s: has the server ended?", path);
	}
	fclose(file);
	text[len] = '\0';
}

static void read_proc(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	read_text(path, text, size);
}

static uint64_t ticks_to_ns(uint64_t ticks)
{
	return ticks * (NS_PER_SECOND / (uint64_t)sysconf(_SC_CLK_TCK));
}

uint64_t process_rss(pid_t pid)
{
	char text[256];
	unsigned long long pages;
	read_proc(pid, "statm", text, sizeof(text));
	if (sscanf(text, "%*u %llu", &pages) != 1) {
		die("cannot make sense of /proc/%d/statm", (int)pid);
	}
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t process_cpu_ns(pid_t pid)
{
	char text[1024];
	unsigned long long user;
	unsigned long long kernel;
	read_proc(pid, "stat", text, sizeof(text));
	/*
	 * The name of the program, in parentheses, may hold anything; utime and stime are fields 14
	 * and 15.
	 */
	const char *fields = strrchr(text, ')');
	if (!fields || sscanf(fields + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
			       &user, &kernel) != 2) {
		die("cannot make sense of /proc/%d/stat", (int)pid);
	}
	return ticks_to_ns(user + kernel);
}

uint64_t machine_cpu_ns(void)
{
	char text[256];
	unsigned long long t[6];
	read_text("/proc/stat", text, sizeof(text));
	/*
	 * user, nice, system; then idle and waiting for disks, which are no work; irq, softirq,
	 * steal.
	 */
	if (sscanf(text, "cpu %llu %llu %llu %*u %*u %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
		    &t[4], &t[5]) != 6) {
		die("cannot make sense of /proc/stat");
	}
	return ticks_to_ns(t[0] + t[1] + t[2] + t[3] + t[4] + t[5]);
}

void need_descriptors(uint64_t count)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
		die("getrlimit: %s", strerror(errno));
	}
	limit.rlim_cur = limit.rlim_max;
	if (limit.rlim_max < count || setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		die("this takes %llu open files, and the system allows %llu (ulimit -Hn)",
			(unsigned long long)count, (unsigned long long)limit.rlim_max);
	}
}
