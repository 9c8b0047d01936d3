/*
 * A small, blocking WebSocket client for the commands (RFC 6455). It sends and receives text
 * messages, and answers pings.
 */
#ifndef HOLDFAST_WS_CLIENT_H
#define HOLDFAST_WS_CLIENT_H

#include "http.h"

struct ws_client;

/**
 * Connects to a path below the URL. Returns 0, or a negative errno with *ret_why (caller frees) and
 * *ret_status, the HTTP status of the answer, or 0 without one.
 */
int ws_client_open(const struct http_url *url, const char *path, struct ws_client **ret,
	int *ret_status, char **ret_why);
/** Whether connecting again after an answer with this status would not help. */
bool ws_client_is_final(int status);
/** Accepts NULL. */
void ws_client_close(struct ws_client *client);
/** Sends a message. Errors are ignored: the next read reports them. */
void ws_client_send(struct ws_client *client, const char *text, size_t len);
/**
 * Waits for the next message, and puts it into `out`, which has to be empty before each message.
 * Returns 1; 0 if the connection was closed, with the close code (1006: no close frame); -EAGAIN if
 * nothing came for a minute: `out` may then hold a part of a message, for the next call; or another
 * negative errno.
 */
int ws_client_read(struct ws_client *client, struct buffer *out, unsigned *ret_code);
/** Returns the socket, for poll(). */
int ws_client_fd(const struct ws_client *client);
/**
 * The same without waiting, for a caller that polls. Reads the socket once if it `is_readable`.
 * Returns -EAGAIN if no message is complete: `out`, which has to be empty before each message, may
 * then hold a part of one, for the next call. Call it with false until it returns that, since
 * several messages can arrive at once.
 */
int ws_client_take(
	struct ws_client *client, bool is_readable, struct buffer *out, unsigned *ret_code);
/** Sends a ping. The server's pong makes the socket readable. */
void ws_client_ping(struct ws_client *client);

#endif
