/* Metrics of the process, from /proc, under the names that Prometheus' client libraries use. */
#include "holdfast/metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void write_one(
	struct buffer *out, const char *name, const char *kind, const char *help, double value)
{
	buffer_printf(out, "# HELP process_%s %s\n# TYPE process_%s %s\nprocess_%s %.17g\n", name,
		help, name, kind, name, value);
}

/** Reads a file of /proc, truncated to `size`; "" if it cannot be read. */
static void read_proc(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "re");
	size_t len = file ? fread(text, 1, size - 1, file) : 0;
	text[len] = '\0';
	if (file) {
		fclose(file);
	}
}

/** When the machine was booted, in seconds since 1970. */
static double boot_time(void)
{
	char text[65536]; /* large, as a line for each processor precedes btime */
	read_proc("/proc/stat", text, sizeof(text));
	const char *at = strstr(text, "\nbtime ");
	return at ? strtod(at + 7, NULL) : 0;
}

static double count_open_files(void)
{
	double count = 0;
	DIR *dir = opendir("/proc/self/fd");
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		count += entry->d_name[0] != '.';
	}
	if (dir) {
		closedir(dir);
		count--; /* the directory itself */
	}
	return count;
}

void metrics_write_process(struct buffer *out)
{
	char text[1024];
	unsigned long user = 0;
	unsigned long system = 0;
	unsigned long long start = 0;
	unsigned long bytes = 0;
	long pages = 0;
	double ticks = (double)sysconf(_SC_CLK_TCK);
	struct rlimit files = {0};
	read_proc("/proc/self/stat", text, sizeof(text));
	const char *at = strrchr(text, ')'); /* ends the program's name */
	/* Fields 14, 15, 22, 23 and 24 of proc(5). */
	int count = at ? sscanf(at + 1,
				 " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d"
				 " %*d %*d %*d %llu %lu %ld",
				 &user, &system, &start, &bytes, &pages)
		       : 0;
	if (count == 5) {
		write_one(out, "cpu_seconds_total", "counter", "User and system time, in seconds",
			(double)(user + system) / ticks);
		write_one(out, "resident_memory_bytes", "gauge", "Resident memory",
			(double)pages * (double)sysconf(_SC_PAGESIZE));
		write_one(out, "virtual_memory_bytes", "gauge", "Virtual memory", (double)bytes);
		write_one(out, "start_time_seconds", "gauge",
			"When the process was started, in seconds since 1970",
			boot_time() + (double)start / ticks);
	}
	write_one(out, "open_fds", "gauge", "Open file descriptors", count_open_files());
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		write_one(out, "max_fds", "gauge", "Maximum number of open file descriptors",
			(double)files.rlim_cur);
	}
}
