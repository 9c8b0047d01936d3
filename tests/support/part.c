#include "part.h"

#include <stdio.h>
#include <stdlib.h>

/** Which part of how many, from the environment: counted from 0; 0 of 1 where nothing is said. */
static void which_part(unsigned long *which, unsigned long *of)
{
	const char *part = getenv("HOLDFAST_PART");
	*which = *of = 1;
	if (part && (sscanf(part, "%lu/%lu", which, of) != 2 || !*of || *which - 1 >= *of)) {
		fprintf(stderr, "HOLDFAST_PART=%s is no part, such as 3/8\n", part);
		exit(2);
	}
	--*which;
}

bool part_has_next(void)
{
	static unsigned long which, of, next;
	if (!of) {
		which_part(&which, &of);
	}
	return next++ % of == which;
}

bool part_is_whole(void)
{
	unsigned long which, of;
	which_part(&which, &of);
	return of == 1;
}
