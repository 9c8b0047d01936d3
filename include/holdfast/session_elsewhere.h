/*
 * The listed sessions of other nodes on the same store: give this table to session_table_open(),
 * and session_table_each_object() visits them too.
 */
#ifndef HOLDFAST_SESSION_ELSEWHERE_H
#define HOLDFAST_SESSION_ELSEWHERE_H

#include "holdfast/session.h"

extern const struct session_elsewhere_ops session_elsewhere_ops;

#endif
