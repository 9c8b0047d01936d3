/*
 * The engine that keeps sessions in PostgreSQL 15 or newer (proto/store-format.md, "Sessions in
 * PostgreSQL"). Without store_place.node_address, one server uses a database at a time.
 *
 * An address is a URL (postgresql://USER@HOST/NAME), or keywords as libpq has them (host=db
 * dbname=holdfast). A directory whose path is such keywords is named as ./host=db. An address with
 * a password is refused, because it would be visible in the list of processes.
 */
#ifndef HOLDFAST_STORE_POSTGRES_H
#define HOLDFAST_STORE_POSTGRES_H

#include "holdfast/store_kind.h"

extern const struct store_kind store_postgres;

#endif
