/* Judges what the facts about a database (pg_doctor.c) mean for the sessions in it. */
#include "holdfast/store_doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A server keeps up to 6 connections, and has more while it takes over sessions. */
#define CONNECTIONS_WANTED 10
/* Requests between nodes are valid for 30 s. */
#define CLOCK_BAD_MS     15000
#define CLOCK_WARNING_MS 1000
#define COMMIT_SLOW_US   50000

struct judging {
	void (*tell)(void *arg, enum store_finding finding, const char *text);
	void *arg;
	enum store_finding worst;
};

__attribute__((format(printf, 3, 4))) static void say(
	struct judging *judging, enum store_finding finding, const char *fmt, ...)
{
	char text[512];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	judging->worst = finding > judging->worst ? finding : judging->worst;
	judging->tell(judging->arg, finding, text);
}

static void judge_kind(struct judging *judging, const struct store_facts_of_database *facts)
{
	if (facts->version < 150000) {
		say(judging, FINDING_BAD, "PostgreSQL %s: version 15 or newer is needed",
			facts->version_text);
	} else {
		say(judging, FINDING_GOOD, "PostgreSQL %s", facts->version_text);
	}
	if (!facts->is_utf8) {
		say(judging, FINDING_BAD,
			"the database is not in UTF8: make one with createdb --encoding UTF8 --template template0 NAME");
	}
	if (facts->is_standby) {
		say(judging, FINDING_BAD,
			"this is a standby, which takes no writes: give the address of the primary, or both (postgresql://USER@ONE,TWO/NAME)");
	}
}

static void judge_disk(struct judging *judging, const struct store_facts_of_database *facts)
{
	if (facts->has_fsync) {
		say(judging, FINDING_GOOD, "fsync is on");
	} else {
		say(judging, FINDING_BAD,
			"fsync is off: a crash of its machine can lose what was acknowledged, and damage everything");
	}
	if (facts->has_full_pages) {
		say(judging, FINDING_GOOD, "full_page_writes is on");
	} else {
		say(judging, FINDING_BAD,
			"full_page_writes is off: a power failure can damage the database, unless its file system writes whole pages");
	}
	if (strcmp(facts->commit_level, "on") == 0 ||
		strcmp(facts->commit_level, "remote_apply") == 0) {
		say(judging, FINDING_GOOD, "synchronous_commit is %s", facts->commit_level);
	} else {
		say(judging, FINDING_WARNING,
			"synchronous_commit is %s: Holdfast sets it to on for its own connections; other writers of this database may lose something",
			facts->commit_level);
	}
}

static void judge_standbys(struct judging *judging, const struct store_facts_of_database *facts)
{
	if (*facts->standby_names && facts->synchronous) {
		say(judging, FINDING_GOOD,
			"%" PRId64 " synchronous standbys of %" PRId64
			": what is acknowledged is on two machines",
			facts->synchronous, facts->standbys);
	} else if (*facts->standby_names) {
		say(judging, FINDING_BAD,
			"no synchronous standby is connected (synchronous_standby_names is %s): commits wait until one is",
			facts->standby_names);
	} else if (facts->standbys) {
		say(judging, FINDING_WARNING,
			"%" PRId64
			" standbys, none of them synchronous: promoting one may lose what was acknowledged last",
			facts->standbys);
	} else {
		say(judging, FINDING_WARNING,
			"no standby: what is acknowledged is on one machine, and lost with its disk");
	}
}

static void judge_timeline(struct judging *judging, const struct store_facts_of_database *facts)
{
	if (facts->timeline && facts->timeline_used && facts->timeline != facts->timeline_used) {
		say(judging, FINDING_WARNING,
			"timeline %" PRId64 ", and sessions were used on %" PRId64
			" last: unless commits waited for this standby, servers refuse it until you run holdfast new-epoch",
			facts->timeline, facts->timeline_used);
	} else if (facts->timeline) {
		say(judging, FINDING_GOOD, "timeline %" PRId64, facts->timeline);
	}
}

static void judge_rest(struct judging *judging, const struct store_facts_of_database *facts)
{
	int64_t ahead = facts->clock_ahead_ms;
	int64_t off = ahead < 0 ? -ahead : ahead;
	say(judging,
		off >= CLOCK_BAD_MS       ? FINDING_BAD
		: off >= CLOCK_WARNING_MS ? FINDING_WARNING
					  : FINDING_GOOD,
		"its clock is %" PRId64 " ms %s this machine's", off,
		ahead < 0 ? "behind" : "ahead of");
	if (facts->has_commits) {
		say(judging, facts->commit_us > COMMIT_SLOW_US ? FINDING_WARNING : FINDING_GOOD,
			"a commit takes %.1f ms, the slowest of 21 took %.1f ms",
			(double)facts->commit_us / 1000, (double)facts->slowest_us / 1000);
	}
	if (facts->connections_left < CONNECTIONS_WANTED) {
		say(judging, FINDING_WARNING,
			"%" PRId64
			" connections are left: each server needs up to %d; raise max_connections",
			facts->connections_left, CONNECTIONS_WANTED);
	}
}

enum store_finding store_doctor_judge(const struct store_facts_of_database *facts,
	void (*tell)(void *arg, enum store_finding finding, const char *text), void *arg)
{
	struct judging judging = {.tell = tell, .arg = arg};
	judge_kind(&judging, facts);
	judge_disk(&judging, facts);
	judge_standbys(&judging, facts);
	judge_timeline(&judging, facts);
	judge_rest(&judging, facts);
	return judging.worst;
}

void store_doctor_finish(struct store_facts_of_database *facts)
{
	free(facts->version_text);
	free(facts->standby_names);
	free(facts->commit_level);
	*facts = (struct store_facts_of_database){0};
}
