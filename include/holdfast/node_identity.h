/*
 * Who asks, as one node says it to another that it passes a request on to (proto/nodes.md). The node
 * that the client reached has looked at its token; the other one believes what this says, because only
 * nodes on the same store have the key that it is signed with. Pure.
 */
#ifndef HOLDFAST_NODE_IDENTITY_H
#define HOLDFAST_NODE_IDENTITY_H

#include "holdfast/address.h"
#include "holdfast/buffer.h"
#include "holdfast/grant.h"

#include <stdbool.h>
#include <stdint.h>

/* The header field that it comes in. */
#define NODE_IDENTITY_FIELD "holdfast-node"
/* Bytes of the key. */
#define NODE_IDENTITY_KEY 32
/* It counts for so long (ms), by the clock of whoever reads it. */
#define NODE_IDENTITY_MS 30000
/* No text of one is longer. */
#define NODE_IDENTITY_MAX ((size_t)32 * 1024)

struct node_identity {
	struct grant *grant;
	struct address client; /* where the client is; all zero: it came by a unix socket */
	bool is_https; /* as the client sees it */
};

/** Appends its text, which is good for one request: its method and target, as they are sent. */
void node_identity_append(struct buffer *out, const unsigned char key[NODE_IDENTITY_KEY],
	const struct node_identity *identity, const char *method, const char *target,
	int64_t now_ms);
/**
 * Reads one, at `now_ms` (ms since 1970). NULL, and *ret has a reference to its grant; or why it does not count,
 * for the operator.
 */
const char *node_identity_read(const char *text, size_t len,
	const unsigned char key[NODE_IDENTITY_KEY], const char *method, const char *target,
	int64_t now_ms, struct node_identity *ret);

#endif
