/*
 * Reports the server's state to the service manager as sd_notify(3) of systemd does: in datagrams
 * to the socket that NOTIFY_SOCKET names.
 */
#ifndef HOLDFAST_NOTIFY_H
#define HOLDFAST_NOTIFY_H

#include <stdbool.h>
#include <uv.h>

struct notify;

/**
 * Returns NULL if NOTIFY_SOCKET is not set, or, after a warning, if it cannot be used. If
 * WATCHDOG_USEC is set, the loop notifies the watchdog twice in that time as long as is_well().
 */
struct notify *notify_create(uv_loop_t *loop, bool (*is_well)(void *arg), void *arg);
/** Reports that the server accepts clients. Accepts NULL, as do the next two. */
void notify_ready(struct notify *notify);
/** Reports that the server is stopping. */
void notify_stopping(struct notify *notify);
void notify_destroy(struct notify *notify);

#endif
