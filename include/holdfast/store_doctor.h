/* Examines how well a database keeps the sessions in it (holdfast doctor). */
#ifndef HOLDFAST_STORE_DOCTOR_H
#define HOLDFAST_STORE_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

struct store_facts_of_database {
	int64_t version; /* as server_version_num: 150004 */
	char *version_text;
	bool is_standby; /* it takes no writes */
	bool is_utf8;
	bool has_fsync;
	bool has_full_pages;
	char *commit_level; /* synchronous_commit */
	char *standby_names; /* synchronous_standby_names; "": commits wait for no standby */
	int64_t standbys; /* connected standbys */
	int64_t synchronous; /* how many of them commits wait for */
	int64_t timeline; /* changed by a promotion or a recovery; 0: unknown */
	int64_t timeline_used; /* the one that sessions were used on last; 0: not noted */
	int64_t clock_ahead_ms; /* how far its clock is ahead of ours */
	bool has_commits; /* commits were timed: */
	int64_t commit_us; /* the median */
	int64_t slowest_us;
	int64_t connections_left;
};

/**
 * Queries the database at an address, and times some commits that change no table. Blocks. Returns
 * 0, or a negative errno and the reason in *ret_why (caller frees). Call store_doctor_finish() in
 * any case.
 */
int store_doctor_ask(
	const char *address, struct store_facts_of_database *ret_facts, char **ret_why);
void store_doctor_finish(struct store_facts_of_database *facts);

enum store_finding { FINDING_GOOD, FINDING_WARNING, FINDING_BAD };
/** Calls `tell` with each finding; returns the worst of them. */
enum store_finding store_doctor_judge(const struct store_facts_of_database *facts,
	void (*tell)(void *arg, enum store_finding finding, const char *text), void *arg);

#endif
