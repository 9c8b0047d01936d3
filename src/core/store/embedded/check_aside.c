/* Checks set-aside/: a damaged session there is a problem until it is repaired or deleted. */
#include "check.h"
#include "repair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_one(struct check *check, const struct set_aside *aside)
{
	char place[256];
	snprintf(place, sizeof(place), "set-aside/%s.%lu", aside->id, aside->number);
	if (aside->has_session) {
		check_note(check, place,
			"session %s was made anew since; nothing reads this folder, and you can delete it",
			aside->id);
	} else if (!aside->is_older) {
		check_problem(check, place,
			"session %s is damaged, and the server does not serve it; run holdfast repair",
			aside->id);
	}
}

bool check_aside(struct check *check, const char *session)
{
	struct set_aside *asides;
	size_t count;
	bool is_there = false;
	if (set_aside_list(check->files->dir_fd, &asides, &count) < 0) {
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		if (!session || strcmp(session, asides[i].id) == 0) {
			check_one(check, &asides[i]);
			is_there = true;
		}
	}
	free(asides);
	check_tell(check);
	return is_there;
}
