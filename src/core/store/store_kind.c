#include "holdfast/store_kind.h"

#include "holdfast/buffer.h"
#include "holdfast/store_database.h"

#include <errno.h>

static const struct store_kind *const no_kinds[] = {NULL};
static const struct store_kind *const *all = no_kinds;

void store_kinds_set(const struct store_kind *const *kinds)
{
	all = kinds;
}

const struct store_kind *store_kind_of(const char *place)
{
	const struct store_kind *const *at = all;
	while (*at && !(*at)->is_address(place)) {
		at++;
	}
	return *at;
}

int store_kind_find(const char *address, const struct store_kind **ret, char **ret_why)
{
	const struct store_kind *kind = store_kind_of(address);
	kind = kind ? kind : *all;
	*ret = kind;
	if (kind && !kind->left_out_by) {
		return 0;
	}
	*ret_why = kind ? xprintf("this program was built without %s (%s)", kind->name,
				  kind->left_out_by)
			: xstrdup("this program knows no databases");
	return -ENOTSUP;
}

/* --- for the tools --- */

int store_database_open(const char *address, struct store_database **ret, char **ret_why)
{
	const struct store_kind *kind;
	*ret = NULL;
	*ret_why = NULL;
	int r = store_kind_find(address, &kind, ret_why);
	return r < 0 ? r : kind->database->open(address, ret, ret_why);
}

void store_database_close(struct store_database *database)
{
	if (database) {
		database->ops->close(database);
	}
}

int store_doctor_ask(const char *address, struct store_facts_of_database *ret_facts, char **ret_why)
{
	const struct store_kind *kind;
	*ret_facts = (struct store_facts_of_database){0};
	int r = store_kind_find(address, &kind, ret_why);
	return r < 0 ? r : kind->ask(address, ret_facts, ret_why);
}
