/*
 * Tells the service manager how the server is, as systemd's sd_notify(3) has it: datagrams to the
 * socket that NOTIFY_SOCKET names. Nobody is told if that is not set.
 */
#ifndef HOLDFAST_NOTIFY_H
#define HOLDFAST_NOTIFY_H

#include <stdbool.h>
#include <uv.h>

struct notify;

/**
 * NULL if nobody is to be told. If WATCHDOG_USEC is set, the watchdog is told in half of that time,
 * from the loop, as long as is_well() holds.
 */
struct notify *notify_create(uv_loop_t *loop, bool (*is_well)(void *arg), void *arg);
/** These accept NULL. The server takes clients from now on. */
void notify_ready(struct notify *notify);
/** It does not any more, and is about to end. */
void notify_stopping(struct notify *notify);
void notify_destroy(struct notify *notify);

#endif
