#include "part.h"

#include <stdio.h>
#include <stdlib.h>

bool part_has_next(void)
{
	static unsigned long which, of, next;
	if (!of) {
		const char *part = getenv("HOLDFAST_PART");
		if (part && (sscanf(part, "%lu/%lu", &which, &of) != 2 || !of || which - 1 >= of)) {
			fprintf(stderr, "HOLDFAST_PART=%s is no part, such as 3/8\n", part);
			exit(2);
		}
		of = part ? of : 1;
		which = part ? which - 1 : 0;
	}
	return next++ % of == which;
}
