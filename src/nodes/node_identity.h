/*
 * The identity of a client, as one node passes it to another with a request that it forwards
 * (proto/nodes.md). The node that the client reached has checked its token; the other node trusts
 * the identity, because only nodes on the same store have the key that signs it. Pure functions.
 */
#ifndef HOLDFAST_NODE_IDENTITY_H
#define HOLDFAST_NODE_IDENTITY_H

#include "holdfast/address.h"
#include "holdfast/buffer.h"
#include "holdfast/grant.h"

#include <stdbool.h>
#include <stdint.h>

/* The header field that carries it. */
#define NODE_IDENTITY_FIELD "holdfast-node"
/* Bytes of the key. */
#define NODE_IDENTITY_KEY 32
/* How far its time may be from the reader's clock, in either direction (ms). */
#define NODE_IDENTITY_MS 30000
/* Most bytes of its text. */
#define NODE_IDENTITY_MAX ((size_t)32 * 1024)

struct node_identity {
	struct grant *grant;
	struct address client; /* the client's address; all zero: it came by a unix socket */
	bool is_https; /* as the client sees it */
};

/** Appends the signed text of an identity, valid for one method and target only. */
void node_identity_append(struct buffer *out, const unsigned char key[NODE_IDENTITY_KEY],
	const struct node_identity *identity, const char *method, const char *target,
	int64_t now_ms);
/**
 * Verifies and reads such a text at the time `now_ms` (ms since 1970). Returns NULL on success,
 * with a reference to a grant in *ret, or a static message for the operator.
 */
const char *node_identity_read(const char *text, size_t len,
	const unsigned char key[NODE_IDENTITY_KEY], const char *method, const char *target,
	int64_t now_ms, struct node_identity *ret);

#endif
