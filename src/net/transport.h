/*
 * Sockets, on libwebsockets. This is the only file pair that knows it: lws reads, writes and polls
 * them as raw sockets, and HTTP and WebSocket frames are read by wire/. docs/libwebsockets.md says
 * why, and what of lws is relied on.
 */
#ifndef HOLDFAST_TRANSPORT_H
#define HOLDFAST_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct transport;
struct transport_ops;
struct ssl_ctx_st;
struct ssl_st;

/** One connected socket; part of its owner's struct. Zeroed, it is none. */
struct sock {
	struct transport *transport;
	const struct transport_ops *ops;
	void *wsi; /* NULL: none, or it is closed */
	bool is_adopting;
	bool is_paused; /* its owner wants to read nothing now */
	bool is_stopped; /* nothing is read: it is paused or choked */
	struct ssl_st *tls; /* NULL: its bytes are plain */
	bool has_ended; /* nothing more comes, and its owner has not been told */
	bool wants_fin; /* behind what is kept */
	bool is_gathered; /* something waits in its transport for transport_flush() */
	size_t kept; /* bytes that the kernel has not taken, at most; 0: it is not choked */
};

/** What a socket tells its owner, always from the loop; none of them may call sock_close(). */
struct transport_ops {
	/** Bytes from the peer, lent for the call; they may be changed in place. */
	void (*received)(struct sock *sock, char *bytes, size_t len);
	/** What was asked for with sock_want_writable(), and it is not choked. */
	void (*writable)(struct sock *sock);
	/** Nothing more can come, and perhaps nothing be sent: it is to be closed. Of TLS only. */
	void (*ended)(struct sock *sock);
	/** What was written later could not be sent: it is to be closed. */
	void (*broken)(struct sock *sock);
	/** sock.kept has changed. */
	void (*kept)(struct sock *sock);
	/** It is closed: by the peer, by an error, or by sock_close(). */
	void (*closed)(struct sock *sock);
};

/** NULL if lws cannot be started. `send_threads`: see send_pool_create(). */
struct transport *transport_create(uv_loop_t *loop, size_t send_threads);
/** Its sockets must be closed. Its handles are closed when the loop has run. Accepts NULL. */
void transport_close(struct transport *transport);
/** Frees it, after transport_close() and a run of the loop. Accepts NULL. */
void transport_destroy(struct transport *transport);

/** Connections that come from now on have this certificate and key (tls.h), which are taken. */
void transport_use_keys(struct transport *transport, struct ssl_ctx_st *keys);
/**
 * Takes `fd`, also when it fails (-EIO; `closed` is not called then). With `is_tls`, for which keys
 * are needed, its owner sees what was encrypted, and what it writes is encrypted. `ops` must outlive it.
 */
int transport_adopt(struct transport *transport, struct sock *sock, const struct transport_ops *ops,
	int fd, bool is_tls);
/**
 * Sends bytes; what the kernel does not take is kept, and the socket is choked until it has left. A
 * choked socket may be written to, but that costs a copy. While it is choked nothing is read from
 * it. Returns -EIO if the socket is broken: `closed` follows, at the latest after sock_close().
 */
int sock_write(struct sock *sock, const void *bytes, size_t len);
/**
 * The same with transport_flush(), which has to come before the loop sleeps: what is sent then to
 * many sockets costs less. `bytes` stay as they are until `done(arg)` is called, once. If the socket
 * is broken, its owner is told by transport_ops.broken.
 */
void sock_write_later(
	struct sock *sock, const void *bytes, size_t len, void (*done)(void *arg), void *arg);
/** Sends what was written later. */
void transport_flush(struct transport *transport);
bool sock_is_choked(struct sock *sock);
/** A number that changes as long as the peer takes what was sent; 0 if that is not known. */
uint64_t sock_taken(const struct sock *sock);
/** The socket itself, to ask the kernel about it; -1: it is closed. */
int sock_fd(const struct sock *sock);
void sock_want_writable(struct sock *sock);
/** Reads no more, or again. */
void sock_pause(struct sock *sock, bool paused);
/** Sends FIN, behind what was written; the peer may go on sending. */
void sock_shutdown(struct sock *sock);
/** Closes it at once. */
void sock_close(struct sock *sock);

#endif
