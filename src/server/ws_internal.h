/* Private to src/server: what the WebSockets of observers, chats and editors share. */
#ifndef HOLDFAST_WS_INTERNAL_H
#define HOLDFAST_WS_INTERNAL_H

#include "server/net_internal.h"

/* ws_observer.c */
/** The gauge that counts such an observer. */
enum metric ws_observer_metric(const struct conn *conn);
/** The observer's socket is that of its connection. */
extern const struct observer_socket_ops ws_observer_socket_ops;
/** Sends an observer who is present, if it watches that and it has changed. */
void ws_tell_presence(struct conn *conn);
/** Confirms an observer's token, and applies its rights. */
void ws_observer_renewed(struct conn *conn);

/* ws_content.c */
#define BLOB_DAMAGED \
	"the image or file is damaged on the server's disk, and is not given out; send it to the session again, which repairs it"
/** After the check: adds what was found to the prompt, or refuses it. */
int ws_take_content(struct conn *conn, struct request *request, struct refusal *refusal);

/* ws_prompts.c */
/** Handles an observer's requests about prompts. */
void ws_handle_prompts(struct conn *conn, const struct request *request, struct refusal *refusal);

#endif
