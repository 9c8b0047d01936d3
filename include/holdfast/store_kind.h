/*
 * Kinds of stores that are found by an address instead of a directory: databases. Each is a wing of
 * its own (src/engines), and the program may have been built without it. main.c lists the kinds;
 * everything else reaches a database by these tables.
 */
#ifndef HOLDFAST_STORE_KIND_H
#define HOLDFAST_STORE_KIND_H

#include "holdfast/store_doctor.h"
#include "holdfast/store_moving.h"

struct store_database_ops;
struct store_engine;

struct store_kind {
	const char *name; /* as users call it: "PostgreSQL" */
	/* The build option that this program lacks, such as "-Dpostgres"; then only is_address() is set. */
	const char *left_out_by;
	/** Whether a place is an address of this kind, and not a directory. */
	bool (*is_address)(const char *place);
	/** Checks the syntax of an address. Returns false and *ret_why (caller frees). */
	bool (*check)(const char *address, char **ret_why);
	/** store_place.engine_arg is the address, which store_open() copies. */
	const struct store_engine *engine;
	/** For the tools that only read (store_database.h). */
	const struct store_database_ops *database;
	/** See store_doctor_ask(). */
	int (*ask)(const char *address, struct store_facts_of_database *ret_facts, char **ret_why);
	/**
	 * Opens a database as one side of a migration, and locks out servers. `from`: the old side,
	 * if the database is the new one; else NULL. Close *ret_side in any case.
	 */
	int (*open_side)(const char *address, const char *from, const struct store_facts *facts,
		struct moving_side *ret_side, char **ret_why);
};

/** Sets the kinds: a list that ends with NULL, borrowed. Until then there is none. */
void store_kinds_set(const struct store_kind *const *kinds);
/** The kind of a place; NULL if it is a directory. */
const struct store_kind *store_kind_of(const char *place);
/**
 * The kind of a place that is no directory; the first kind, whose functions say what is wrong, if
 * no kind recognises the address. Returns -ENOTSUP and *ret_why (caller frees) if the program was
 * built without it.
 */
int store_kind_find(const char *address, const struct store_kind **ret, char **ret_why);

#endif
