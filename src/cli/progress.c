#include "holdfast/command.h"

#include "holdfast/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WIDTH   24
#define DRAW_MS 100

/** A count for people: "12.3 MiB" or "1234 events". */
static void print_count(char *out, size_t size, double count, const char *unit)
{
	static const char *const prefixes[] = {"", "Ki", "Mi", "Gi", "Ti"};
	size_t i = 0;
	if (strcmp(unit, "B") != 0) {
		snprintf(out, size, "%.0f %s", count, unit);
		return;
	}
	for (; count >= 1024 && i < 4; i++) {
		count /= 1024;
	}
	snprintf(out, size, "%.*f %sB", i ? 1 : 0, count, prefixes[i]);
}

static void draw(struct progress *progress)
{
	uint64_t total = progress->total ? progress->total : 1;
	uint64_t done = progress->done < total ? progress->done : total;
	int64_t now = clock_steady_ms();
	double seconds = (double)(now - progress->began_ms) / 1000;
	double rate = seconds > 0 ? (double)done / seconds : 0;
	long left = rate > 0 ? (long)((double)(total - done) / rate) : 0;
	int filled = (int)((double)WIDTH * (double)done / (double)total);
	char bar[WIDTH + 1];
	char speed[48];
	memset(bar, '.', WIDTH);
	memset(bar, '#', (size_t)filled);
	bar[WIDTH] = '\0';
	print_count(speed, sizeof(speed), rate, progress->unit);
	fprintf(stderr, "\r\033[K[%s] %3d%%  %s/s  %ld:%02ld left", bar,
		(int)(100.0 * (double)done / (double)total), speed, left / 60, left % 60);
	fflush(stderr);
	progress->drawn_ms = now;
}

void progress_begin(struct progress *progress, const char *unit, uint64_t total)
{
	*progress = (struct progress){.is_shown = isatty(STDERR_FILENO),
		.unit = unit,
		.total = total,
		.began_ms = clock_steady_ms()};
	if (progress->is_shown) {
		draw(progress);
	}
}

void progress_add(struct progress *progress, uint64_t count)
{
	progress->done += count;
	if (progress->is_shown && clock_steady_ms() - progress->drawn_ms >= DRAW_MS) {
		draw(progress);
	}
}

void progress_hide(struct progress *progress)
{
	if (progress->is_shown) {
		fprintf(stderr, "\r\033[K");
		fflush(stderr);
		progress->drawn_ms = 0;
	}
}

void progress_end(struct progress *progress)
{
	if (progress->is_shown) {
		draw(progress);
		fputc('\n', stderr);
	}
	progress->is_shown = false;
}
