/* TLS for the HTTP client of the commands: it waits, as they do. */
#ifndef HOLDFAST_HTTP_TLS_H
#define HOLDFAST_HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tls_client;

/**
 * Shakes hands over a connected socket, which stays the caller's. `is_trusted`: whatever certificate
 * it has, the server is known to be the right one; else it has to be good, and for `host`. NULL if
 * that fails; then *ret_why (caller frees) says why.
 */
struct tls_client *tls_client_create(int fd, const char *host, bool is_trusted, char **ret_why);
/** The number of bytes, 0 at the end, or a negative errno. */
ssize_t tls_client_read(struct tls_client *client, void *bytes, size_t len);
ssize_t tls_client_write(struct tls_client *client, const void *bytes, size_t len);
/** Accepts NULL. */
void tls_client_destroy(struct tls_client *client);

#endif
