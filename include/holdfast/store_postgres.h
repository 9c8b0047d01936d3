/*
 * The engine that keeps sessions in PostgreSQL 15 or newer (proto/store-format.md, "Sessions in
 * PostgreSQL"). Without store_place.node_address, one server uses a database at a time.
 */
#ifndef HOLDFAST_STORE_POSTGRES_H
#define HOLDFAST_STORE_POSTGRES_H

#include "holdfast/store.h"

/** store_place.engine_arg is the address of the database; store_open() copies it. */
extern const struct store_engine store_postgres;

/**
 * Whether a place is the address of a database, and not a directory: a URL, or keywords as libpq has
 * them (host=db dbname=holdfast). A directory whose path is such keywords is named as ./host=db.
 */
bool store_postgres_is_address(const char *place);

/**
 * Checks the syntax of an address (postgresql://USER@HOST/NAME, or keywords of libpq). An address
 * with a password is refused, because it would be visible in the list of processes. If it returns
 * false, *ret_why (caller frees) is the reason.
 */
bool store_postgres_check(const char *address, char **ret_why);

#endif
