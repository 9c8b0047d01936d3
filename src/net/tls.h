/*
 * TLS 1.2 and 1.3 for connections whose bytes somebody else carries: what comes from the wire is
 * given to it, and what it wants to send lies in a buffer. OpenSSL; no sockets, and nothing that
 * waits.
 */
#ifndef HOLDFAST_TLS_H
#define HOLDFAST_TLS_H

#include "holdfast/buffer.h"

/** A certificate and its key, with all settings. */
struct ssl_ctx_st;
/**
 * Reads both from PEM files. May run on any thread. NULL if they cannot be used; then *ret_why says
 * why. *ret_warning: it can be used, but something is to be told (NULL: nothing). The caller frees
 * both.
 */
struct ssl_ctx_st *tls_keys_load(
	const char *cert_file, const char *key_file, char **ret_warning, char **ret_why);
/** What OpenSSL keeps for the thread that calls is freed; it may go on using OpenSSL. */
void tls_forget_thread(void);
/** Connections that use them go on. Accepts NULL. */
void tls_keys_drop(struct ssl_ctx_st *keys);

/** What the connections of a server share. */
struct tls_engine;

struct tls_engine *tls_engine_create(void);
/** Its connections must be gone. Accepts NULL. */
void tls_engine_destroy(struct tls_engine *engine);
/** New connections use these keys, which are taken; others stay with what they have. */
void tls_engine_use(struct tls_engine *engine, struct ssl_ctx_st *keys);
/** What has to be sent to the peer now. Whoever sends it clears the buffer. */
struct buffer *tls_out(struct tls_engine *engine);

/** One connection. */
struct ssl_st;

struct ssl_st *tls_create(struct tls_engine *engine);
/** Accepts NULL. */
void tls_destroy(struct ssl_st *tls);
/**
 * Takes all of the bytes that came, and appends what they say to `plain`. Returns 0, or when nothing
 * can come behind it: -ECONNRESET if the peer has ended its side, -EPROTONOSUPPORT if it speaks
 * HTTP without TLS, -EPROTO for any other mistake: nothing may be sent then but what lies in
 * tls_out().
 */
int tls_take(struct tls_engine *engine, struct ssl_st *tls, const char *bytes, size_t len,
	struct buffer *plain);
/** Encrypts bytes. Returns -EPROTO if that cannot be: the handshake is not done, or has failed. */
int tls_write(struct ssl_st *tls, const void *bytes, size_t len);
/** Says that nothing more will come, if it can be said. */
void tls_end(struct ssl_st *tls);

#endif
