/*
 * Sockets on libwebsockets (lws). Only transport.c knows it: lws reads, writes and polls raw
 * sockets, and src/core/wire parses HTTP and WebSocket frames. docs/libwebsockets.md says why, and what
 * lws is relied on for.
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

/** One connected socket, embedded in its owner's struct. All zero: no socket. */
struct sock {
	struct transport *transport;
	const struct transport_ops *ops;
	void *wsi; /* NULL: not adopted, or closed */
	bool is_adopting;
	bool is_paused; /* its owner has paused reading */
	bool is_stopped; /* reading is off: it is paused or choked */
	struct ssl_st *tls; /* NULL: no TLS */
	bool has_ended; /* the input has ended, and its owner has not been told yet */
	bool wants_fin; /* send FIN after what is kept */
	bool is_gathered; /* a write waits for transport_flush() */
	size_t kept; /* upper bound of the bytes that the kernel has not taken; 0: not choked */
};

/**
 * Callbacks to a socket's owner, always from the loop's thread. None of them may call sock_close().
 */
struct transport_ops {
	/** Bytes from the peer, valid during the call; the callee may change them in place. */
	void (*received)(struct sock *sock, char *bytes, size_t len);
	/** The socket is writable, after sock_want_writable() or being choked. */
	void (*writable)(struct sock *sock);
	/**
	 * TLS has ended: nothing more can be received, and perhaps not be sent. Close the socket.
	 */
	void (*ended)(struct sock *sock);
	/** A sock_write_later() has failed. Close the socket. */
	void (*broken)(struct sock *sock);
	/** sock.kept has changed. */
	void (*kept)(struct sock *sock);
	/** The socket was closed by the peer, by an error, or by sock_close(). */
	void (*closed)(struct sock *sock);
};

/** `send_threads`: see send_pool_create(). */
struct transport *transport_create(uv_loop_t *loop, size_t send_threads);
/**
 * Starts lws; sockets can be adopted from then on. It keeps the loop alive only while there are
 * sockets. Returns 0, or -EIO if lws cannot be started.
 */
int transport_open(struct transport *transport);
/**
 * Frees it. Its sockets must be closed. If it is open, it runs the loop, to which nothing else may
 * be left to do, and no other thread may open files: see docs/libwebsockets.md. Accepts NULL.
 */
void transport_destroy(struct transport *transport);

/** Sets the certificate and key (tls.h) for connections adopted from now on; takes ownership. */
void transport_use_keys(struct transport *transport, struct ssl_ctx_st *keys);
/**
 * Makes `fd` a socket and takes ownership of it, even if that fails (-EIO; `closed` is not called
 * then). With `is_tls`, for which keys are needed, the owner reads and writes plain bytes. `ops`
 * must outlive the socket.
 */
int transport_adopt(struct transport *transport, struct sock *sock, const struct transport_ops *ops,
	int fd, bool is_tls);
/**
 * Sends bytes. What the kernel does not take is kept, and the socket is choked until that has left:
 * nothing is read from it meanwhile, and further writes cost a copy. Returns -EIO if the socket is
 * broken: `closed` follows, at the latest after sock_close().
 */
int sock_write(struct sock *sock, const void *bytes, size_t len);
/**
 * Like sock_write(), but at the next transport_flush(), which must be called before the loop
 * sleeps. Batched sends to many sockets cost less. `bytes` must not change until `done(arg)` is
 * called, exactly once. A broken socket is reported by transport_ops.broken.
 */
void sock_write_later(
	struct sock *sock, const void *bytes, size_t len, void (*done)(void *arg), void *arg);
/** Performs all pending sock_write_later(). */
void transport_flush(struct transport *transport);
bool sock_is_choked(struct sock *sock);
/** A number that changes while the peer takes what was sent; 0 if unknown. */
uint64_t sock_taken(const struct sock *sock);
/** The descriptor, for queries to the kernel; -1 if it is closed. */
int sock_fd(const struct sock *sock);
void sock_want_writable(struct sock *sock);
/** Pauses or resumes reading. */
void sock_pause(struct sock *sock, bool paused);
/** Sends FIN after everything written; the peer can go on sending. */
void sock_shutdown(struct sock *sock);
/** Closes the socket at once. */
void sock_close(struct sock *sock);

#endif
