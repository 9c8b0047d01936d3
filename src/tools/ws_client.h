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
/* For those that wait for something else, too. */
int ws_client_fd(const struct ws_client *client);
/**
 * The same without waiting, if the socket has something (`is_readable`) or more than one message came at once: 1 with a message in
 * `out`, which has to be empty at first, and is left alone while a part of one is in it; -EAGAIN: there is no whole one.
 */
int ws_client_take(
	struct ws_client *client, bool is_readable, struct buffer *out, unsigned *ret_code);
/** The server answers, which can be heard at the socket. */
void ws_client_ping(struct ws_client *client);

#endif
