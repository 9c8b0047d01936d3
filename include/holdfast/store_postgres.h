/*
 * The engine that keeps sessions in PostgreSQL 15 or newer (proto/store-format.md, "Sessions in
 * PostgreSQL"). One server works on a database at a time.
 */
#ifndef HOLDFAST_STORE_POSTGRES_H
#define HOLDFAST_STORE_POSTGRES_H

#include "holdfast/store.h"

/** Its store_place.engine_arg is the address of the database, a string that outlives store_open(). */
extern const struct store_engine store_postgres;

/**
 * Whether an address (postgresql://USER@HOST/NAME, or the keywords of libpq) can be read. One with
 * a password is refused: it would be seen in lists of processes. *ret_why says why not; the caller
 * frees it.
 */
bool store_postgres_check(const char *address, char **ret_why);

#endif
