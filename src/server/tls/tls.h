/*
 * The server's side of TLS 1.2 and 1.3, with OpenSSL, without sockets: the caller passes in the
 * bytes from the wire, and sends what is left in a buffer. Only tls_keys_load() blocks.
 */
#ifndef HOLDFAST_TLS_H
#define HOLDFAST_TLS_H

#include "holdfast/buffer.h"

/** A certificate and its key, with all TLS settings. */
struct ssl_ctx_st;
/**
 * Reads a certificate and its key from PEM files (RFC 7468, read by OpenSSL): text around the blocks,
 * CRLF, a byte order mark, and blocks of other kinds are skipped; of certificates the first is the server's own, and all
 * behind it are its chain. Blocks; may run on any thread. Returns NULL, with
 * a message in *ret_why, if they cannot be used. Otherwise *ret_warning is NULL or something that
 * the operator should know. The caller frees both strings.
 */
struct ssl_ctx_st *tls_keys_load(
	const char *cert_file, const char *key_file, char **ret_warning, char **ret_why);
/** Frees what OpenSSL keeps for the calling thread, which may go on using OpenSSL. */
void tls_forget_thread(void);
/** Drops a reference; connections that use the keys go on. Accepts NULL. */
void tls_keys_drop(struct ssl_ctx_st *keys);

/** The state that all TLS connections of a server share. */
struct tls_engine;

struct tls_engine *tls_engine_create(void);
/** All its connections must have been destroyed. Accepts NULL. */
void tls_engine_destroy(struct tls_engine *engine);
/** Takes ownership of keys for new connections; existing ones keep those that they have. */
void tls_engine_use(struct tls_engine *engine, struct ssl_ctx_st *keys);
/**
 * The bytes to be sent to the peer after a call for its connection. The caller clears the buffer.
 */
struct buffer *tls_out(struct tls_engine *engine);

/** One connection. */
struct ssl_st;

struct ssl_st *tls_create(struct tls_engine *engine);
/** Accepts NULL. */
void tls_destroy(struct ssl_st *tls);
/**
 * Decrypts the bytes that came from the wire, all of them, and appends the result to `plain`.
 * Returns 0, -ECONNRESET if the peer has ended its side, -EPROTONOSUPPORT if it speaks HTTP without
 * TLS, or -EPROTO for any other error, after which only the bytes in tls_out() may be sent.
 */
int tls_take(struct tls_engine *engine, struct ssl_st *tls, const char *bytes, size_t len,
	struct buffer *plain);
/** Encrypts bytes to tls_out(). Returns -EPROTO if the handshake is not done, or has failed. */
int tls_write(struct ssl_st *tls, const void *bytes, size_t len);
/** Tells the peer that nothing more will come, if the handshake is done. */
void tls_end(struct ssl_st *tls);

#endif
