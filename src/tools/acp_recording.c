#include "acp_recording.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REPLACEMENT "\xef\xbf\xbd"

static int64_t now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/** The highest number that a process has in the file; what is no such line has none. */
static unsigned long last_proc(FILE *file)
{
	char *line = NULL;
	size_t capacity = 0;
	ssize_t len;
	unsigned long last = 0;
	while ((len = getline(&line, &capacity, file)) > 0) {
		json_t *entry = json_loadb(line, (size_t)len, JSON_ALLOW_NUL, NULL);
		json_int_t proc = json_integer_value(json_object_get(entry, "proc"));
		last = proc > 0 && (unsigned long)proc > last ? (unsigned long)proc : last;
		json_decref(entry);
	}
	free(line);
	return last;
}

static void write_entry(struct acp_recording *r, struct buffer *entry)
{
	buffer_append_str(entry, "}\n");
	/* In one call, so that the lines of several recorders stay whole. */
	ssize_t len = write(r->fd, entry->data, entry->len);
	if (len != (ssize_t)entry->len && !r->failed) {
		r->failed = true;
		diag(DIAG_ERROR, "%s: %s; the recording is not complete", r->path,
			len < 0 ? strerror(errno) : "the disk is full");
	}
	buffer_finish(entry);
}

static void begin_entry(const struct acp_recording *r, struct buffer *entry, const char *dir)
{
	int64_t at = now_us() - r->begin_us;
	buffer_printf(entry, "{\"t\":%lld.%03d,\"dir\":\"%s\",\"proc\":%lu", (long long)(at / 1000),
		(int)(at % 1000), dir, r->proc);
}

int acp_recording_open(struct acp_recording *r, const char *path)
{
	char name[80];
	time_t now = time(NULL);
	struct tm parts;
	strftime(name, sizeof(name), "acp-%Y%m%d-%H%M%S", localtime_r(&now, &parts));
	size_t len = strlen(name);
	snprintf(name + len, sizeof(name) - len, "-%d.jsonl", (int)getpid());
	*r = (struct acp_recording){.begin_us = now_us(), .path = xstrdup(path ? path : name)};
	r->fd = open(r->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (r->fd < 0) {
		diag(DIAG_ERROR, "%s: %s", r->path, strerror(errno));
		free(r->path);
		return -errno;
	}
	if (!path) {
		diag(DIAG_INFO, "recording to %s", r->path);
	}
	return 0;
}

void acp_recording_close(struct acp_recording *r)
{
	close(r->fd);
	free(r->path);
}

void acp_recording_spawn(struct acp_recording *r)
{
	/* The next recorder finds our number taken. */
	flock(r->fd, LOCK_EX);
	FILE *file = fopen(r->path, "re");
	r->proc = 1 + (file ? last_proc(file) : 0);
	if (file) {
		fclose(file);
	}
	struct buffer entry = {0};
	begin_entry(r, &entry, "ctl");
	buffer_append_str(&entry, ",\"event\":\"spawn\"");
	write_entry(r, &entry);
	flock(r->fd, LOCK_UN);
}

void acp_recording_exit(struct acp_recording *r, int status)
{
	struct buffer entry = {0};
	begin_entry(r, &entry, "ctl");
	buffer_append_str(&entry, ",\"event\":\"exit\"");
	if (WIFSIGNALED(status)) {
		const char *name = sigabbrev_np(WTERMSIG(status));
		buffer_printf(&entry, ",\"code\":null,\"signal\":\"SIG%s\"", name ? name : "?");
	} else {
		buffer_printf(&entry, ",\"code\":%d", WEXITSTATUS(status));
	}
	write_entry(r, &entry);
}

/** The length of the character at `text`, or 0 if there is none. */
static size_t char_length(const char *text, size_t len)
{
	for (size_t n = 1; n <= 4 && n <= len; n++) {
		json_t *string = json_stringn(text, n);
		json_decref(string);
		if (string) {
			return n;
		}
	}
	return 0;
}

static void append_mended(struct buffer *out, const char *text, size_t len)
{
	struct buffer mended = {0};
	for (size_t at = 0; at < len;) {
		size_t n = char_length(text + at, len - at);
		buffer_append(&mended, n ? text + at : REPLACEMENT, n ? n : strlen(REPLACEMENT));
		at += n ? n : 1;
	}
	buffer_append_json(out, mended.data, mended.len);
	buffer_finish(&mended);
}

void acp_recording_line(struct acp_recording *r, const char *dir, const char *line, size_t len)
{
	struct buffer entry = {0};
	begin_entry(r, &entry, dir);
	buffer_append_str(&entry, ",\"line\":");
	json_t *string = len > 0 ? json_stringn(line, len) : json_string("");
	if (string) {
		buffer_append_json(&entry, len > 0 ? line : "", len);
	} else {
		append_mended(&entry, line, len);
	}
	json_decref(string);
	write_entry(r, &entry);
}
