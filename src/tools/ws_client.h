/*
 * As much of a WebSocket client as the commands need (RFC 6455): it waits, as they do. Messages are
 * texts; a ping is answered.
 */
#ifndef HOLDFAST_WS_CLIENT_H
#define HOLDFAST_WS_CLIENT_H

#include "http.h"

struct ws_client;

/**
 * Connects to a path below the URL. On failure a negative errno, with *ret_why (caller frees) and
 * *ret_status: what the server answered instead of an upgrade, 0 if nothing.
 */
int ws_client_open(const struct http_url *url, const char *path, struct ws_client **ret,
	int *ret_status, char **ret_why);
/** Accepts NULL. */
void ws_client_close(struct ws_client *client);
/** What cannot be sent is told by the next read. */
void ws_client_send(struct ws_client *client, const char *text, size_t len);
/**
 * The next message, in `out`. 1; 0: the server has closed, *ret_code says why (1006: without a
 * word); -EAGAIN: nothing has come for a minute; or another negative errno.
 */
int ws_client_read(struct ws_client *client, struct buffer *out, unsigned *ret_code);

#endif
