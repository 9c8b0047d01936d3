/*
 * The codes of refusals: the table of proto/protocol.md (Error codes). The last four are told to
 * editors alone (docs/editors.md). Sockets alone tell a code whose status is a dash there. Pure.
 */
#ifndef HOLDFAST_ERROR_CODES_H
#define HOLDFAST_ERROR_CODES_H

#include <stdbool.h>

/*
 * CODE(code, HTTP status, close code of a WebSocket that ends with it; 0: none does). PASSING: the
 * same input may be taken later, whatever the peer does.
 */
#define ERROR_CODES(CODE, PASSING)            \
	CODE(bad_json, 400, 0)                \
	CODE(bad_utf8, 400, 0)                \
	CODE(bad_request, 400, 1008)          \
	CODE(bad_session_id, 400, 0)          \
	CODE(unknown_type, 400, 0)            \
	CODE(unsupported, 400, 0)             \
	CODE(unsupported_media_type, 415, 0)  \
	CODE(forbidden_origin, 403, 0)        \
	CODE(forbidden_host, 403, 0)          \
	CODE(unauthorized, 401, 4401)         \
	CODE(token_expired, 401, 4401)        \
	CODE(token_revoked, 401, 4403)        \
	CODE(too_many_tokens, 429, 4401)      \
	CODE(forbidden, 403, 1008)            \
	CODE(not_found, 404, 4404)            \
	CODE(gone, 410, 0)                    \
	CODE(not_implemented, 501, 0)         \
	CODE(method_not_allowed, 405, 0)      \
	CODE(session_exists, 409, 0)          \
	CODE(too_large, 413, 1009)            \
	CODE(timeout, 408, 0)                 \
	PASSING(server_busy, 503, 1013)       \
	CODE(too_many_connections, 503, 1013) \
	CODE(queue_full, 429, 0)              \
	PASSING(permissions_full, 429, 0)     \
	PASSING(too_many_sessions, 429, 0)    \
	CODE(too_many_subscriptions, 429, 0)  \
	CODE(too_many_agents, 400, 0)         \
	CODE(names_full, 429, 0)              \
	CODE(blobs_full, 507, 0)              \
	CODE(stream_conflict, 409, 0)         \
	CODE(stream_closed, 409, 0)           \
	CODE(stale_epoch, 403, 0)             \
	CODE(producer_gap, 409, 0)            \
	CODE(stream_full, 413, 0)             \
	CODE(too_many_streams, 429, 0)        \
	PASSING(disk_full, 507, 0)            \
	CODE(not_queued, 404, 0)              \
	CODE(unknown_blob, 404, 0)            \
	CODE(blob_damaged, 500, 0)            \
	CODE(stream_damaged, 500, 0)          \
	CODE(unsupported_content, 400, 0)     \
	CODE(missing_message_id, 400, 0)      \
	CODE(duplicate_message_id, 400, 0)    \
	CODE(unknown_role, 400, 0)            \
	CODE(duplicate_tool_use_id, 400, 0)   \
	CODE(unknown_tool_use, 400, 0)        \
	CODE(bad_key, 400, 0)                 \
	CODE(key_conflict, 409, 0)            \
	CODE(stale_run, 409, 0)               \
	CODE(unknown_run, 409, 0)             \
	CODE(run_active, 409, 0)              \
	CODE(history_mismatch, 409, 0)        \
	PASSING(storage_failed, 503, 1011)    \
	CODE(not_ready, 503, 0)               \
	CODE(shutting_down, 503, 0)           \
	CODE(owner_unreachable, 503, 0)       \
	CODE(session_damaged, 503, 1011)      \
	CODE(keys_damaged, 503, 0)            \
	CODE(already_resolved, 409, 0)        \
	CODE(unknown_request, 409, 0)         \
	CODE(not_prompting, 400, 0)           \
	CODE(setting_refused, 400, 0)         \
	CODE(no_agent, 409, 0)                \
	CODE(unknown_agent, 400, 0)           \
	CODE(bad_directory, 400, 0)           \
	CODE(bad_message, 400, 0)             \
	CODE(unknown_method, 400, 0)          \
	CODE(agent_error, 400, 0)             \
	CODE(cancelled, 400, 0)

#define ERROR_ID(code, ...) ERROR_##code,
enum error_code { ERROR_NONE, ERROR_CODES(ERROR_ID, ERROR_ID) ERROR_COUNT };
#undef ERROR_ID

/** Returns the code as clients get it (static text); "" for ERROR_NONE. */
const char *error_code_text(enum error_code code);
/** Returns the code of a text, or ERROR_NONE if there is no such code. */
enum error_code error_code_parse(const char *text);
/** Returns the HTTP status of a code. */
unsigned error_code_status(enum error_code code);
/** Returns the close code of a WebSocket that ends with a code which has one. */
unsigned error_code_close(enum error_code code);
/** Whether input that was refused with this code may be taken later, whatever the peer does. */
bool error_code_may_pass(enum error_code code);

#endif
