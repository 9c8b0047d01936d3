/* Blocking TLS for the HTTP client of the commands. */
#ifndef HOLDFAST_HTTP_TLS_H
#define HOLDFAST_HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tls_client;

/**
 * Does the handshake over a connected socket, which remains the caller's. With `is_trusted` any
 * certificate is accepted; otherwise it must be valid for `host`. Returns NULL on failure, with
 * *ret_why (caller frees).
 */
struct tls_client *tls_client_create(int fd, const char *host, bool is_trusted, char **ret_why);
/** Returns the number of bytes, 0 at the end, or a negative errno. */
ssize_t tls_client_read(struct tls_client *client, void *bytes, size_t len);
ssize_t tls_client_write(struct tls_client *client, const void *bytes, size_t len);
/** Accepts NULL. */
void tls_client_destroy(struct tls_client *client);

#endif
