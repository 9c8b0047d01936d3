/* What a database that sessions are to be in promises (holdfast doctor). */
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
	char *standby_names; /* synchronous_standby_names; "": none is waited for */
	int64_t standbys; /* that are connected */
	int64_t synchronous; /* of them, those that commits wait for */
	int64_t timeline; /* which a promotion and a recovery change; 0: it does not say */
	int64_t timeline_used; /* that on which sessions were used last; 0: nobody has noted one */
	int64_t clock_ahead_ms; /* of ours */
	bool has_commits; /* some were made: */
	int64_t commit_us; /* the time of most */
	int64_t slowest_us;
	int64_t connections_left;
};

/**
 * Asks the database at an address, and makes some commits that leave nothing. Blocks. 0, or a negative errno and
 * *ret_why (caller frees); store_doctor_finish() in any case.
 */
int store_doctor_ask(
	const char *address, struct store_facts_of_database *ret_facts, char **ret_why);
void store_doctor_finish(struct store_facts_of_database *facts);

enum store_finding { FINDING_GOOD, FINDING_WARNING, FINDING_BAD };
/** Says what the facts mean, one after the other; returns the worst. */
enum store_finding store_doctor_judge(const struct store_facts_of_database *facts,
	void (*tell)(void *arg, enum store_finding finding, const char *text), void *arg);

#endif
