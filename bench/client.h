/*
 * One connection of the load tool, a WebSocket or plain HTTP: non-blocking, on an epoll of its
 * owner.
 */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stdint.h>

struct client {
	int fd;
	int epoll;
	bool is_open; /* the handshake is done */
	bool is_http;
	bool wants_write;
	uint64_t received; /* bytes */
	struct buffer rx; /* the beginning of a frame that has not come whole */
	struct buffer tx; /* what the socket has not taken yet */
	/** A text frame, or an answer with its headers, has come, at a time of now_ns(). */
	void (*text)(struct client *client, const char *text, size_t len, uint64_t when);
	/**
	 * Takes bytes of another protocol instead, and returns how many of them it has used. NULL:
	 * it is a WebSocket, or HTTP.
	 */
	size_t (*take)(struct client *client, char *bytes, size_t len, uint64_t when);
	/** The handshake of a WebSocket is done; may be NULL. */
	void (*opened)(struct client *client);
	/**
	 * What has come is handled, and all that was to be sent has been. NULL: nothing to do then.
	 */
	void (*drained)(struct client *client);
	void *owner;
};

/**
 * Connects to a port of this machine. `index` tells connections apart: each 4,096 of them come from
 * an address of their own (127.0.0.1, 127.0.0.2, …), so that ports do not run out.
 */
void client_open(struct client *client, int epoll, unsigned port, unsigned index, const char *path);
void client_open_http(struct client *client, int epoll, unsigned port);
/** Nothing is sent, and what comes goes to take(). */
void client_open_plain(struct client *client, int epoll, unsigned port, unsigned index);
void client_send(struct client *client, const char *text, size_t len);
/** Bytes as they are on the wire; they go out with client_flush(). */
void client_queue(struct client *client, const char *bytes, size_t len);
void client_flush(struct client *client);
/** From now on nobody waits for it: client_drop() has the kernel throw away what has come, and counts it. */
void client_make_sink(struct client *client);
void client_drop(struct client *client);
void client_close(struct client *client);
/**
 * Waits until now_ns() is `until`, or one of the epoll's clients can be written to or read: does
 * that, and calls text(). Dies when the server closes a connection.
 */
void client_wait(int epoll, uint64_t until);

/** POST, waiting for the answer; dies unless it has this status. */
void client_post(unsigned port, const char *path, const char *json, unsigned status);

#endif
