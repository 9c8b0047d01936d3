#include "acp_recording.h"

#include "holdfast/beneath.h"
#include "holdfast/buffer.h"
#include "holdfast/diag.h"
#include "holdfast/utf8.h"

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
#include <uv.h>

static int64_t now_us(void)
{
	return (int64_t)(uv_hrtime() / 1000);
}

/** Returns the highest process number in the file, or 0. Lines without one are ignored. */
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
	/* One call for each line, so that several recorders can append to the same file. */
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
	r->fd = open_named(r->path, O_RDWR | O_CREAT | O_APPEND, 0600);
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
	/* Locked until our number is in the file, so that no other recorder takes it too. */
	flock(r->fd, LOCK_EX);
	int fd = open_named(r->path, O_RDONLY, 0);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
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

void acp_recording_line(struct acp_recording *r, const char *dir, const char *line, size_t len)
{
	struct buffer entry = {0};
	begin_entry(r, &entry, dir);
	buffer_append_str(&entry, ",\"line\":");
	struct buffer text = {0};
	for (size_t at = 0, n; at < len; at += n ? n : 1) {
		n = utf8_length(line + at, len - at);
		buffer_append(
			&text, n ? line + at : UTF8_REPLACEMENT, n ? n : strlen(UTF8_REPLACEMENT));
	}
	buffer_append_json(&entry, buffer_cstr(&text), text.len);
	buffer_finish(&text);
	write_entry(r, &entry);
}
