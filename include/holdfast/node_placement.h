/*
 * Several nodes on one store (proto/nodes.md): give this table to server_create() if the store is
 * shared (session_table_is_shared()).
 */
#ifndef HOLDFAST_NODE_PLACEMENT_H
#define HOLDFAST_NODE_PLACEMENT_H

struct placement_ops;

extern const struct placement_ops node_placement_ops;

#endif
