/*
 * The codes of refusals, each with its HTTP status: the table of proto/protocol.md (Error codes).
 * The last two are told to editors alone (docs/editors.md). Sockets alone tell a code whose status
 * is a dash there. Pure.
 */
#ifndef HOLDFAST_ERROR_CODES_H
#define HOLDFAST_ERROR_CODES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * CODE(code, HTTP status). PASSING: the same input may be taken later, whatever the peer does.
 */
#define ERROR_CODES(CODE, PASSING)          \
	CODE("bad_json", 400)               \
	CODE("bad_utf8", 400)               \
	CODE("bad_request", 400)            \
	CODE("bad_session_id", 400)         \
	CODE("unknown_type", 400)           \
	CODE("unsupported", 400)            \
	CODE("unsupported_media_type", 415) \
	CODE("forbidden_origin", 403)       \
	CODE("forbidden_host", 403)         \
	CODE("unauthorized", 401)           \
	CODE("token_expired", 401)          \
	CODE("token_revoked", 401)          \
	CODE("too_many_tokens", 429)        \
	CODE("forbidden", 403)              \
	CODE("not_found", 404)              \
	CODE("gone", 410)                   \
	CODE("not_implemented", 501)        \
	CODE("method_not_allowed", 405)     \
	CODE("session_exists", 409)         \
	CODE("too_large", 413)              \
	CODE("timeout", 408)                \
	PASSING("server_busy", 503)         \
	CODE("too_many_connections", 503)   \
	CODE("queue_full", 429)             \
	PASSING("permissions_full", 429)    \
	PASSING("too_many_sessions", 429)   \
	CODE("too_many_subscriptions", 429) \
	CODE("too_many_agents", 400)        \
	CODE("names_full", 429)             \
	CODE("blobs_full", 507)             \
	CODE("stream_conflict", 409)        \
	CODE("stream_closed", 409)          \
	CODE("stale_epoch", 403)            \
	CODE("producer_gap", 409)           \
	CODE("stream_full", 413)            \
	CODE("too_many_streams", 429)       \
	PASSING("disk_full", 507)           \
	CODE("not_queued", 404)             \
	CODE("unknown_blob", 404)           \
	CODE("blob_damaged", 500)           \
	CODE("stream_damaged", 500)         \
	CODE("unsupported_content", 400)    \
	CODE("missing_message_id", 400)     \
	CODE("duplicate_message_id", 400)   \
	CODE("unknown_role", 400)           \
	CODE("duplicate_tool_use_id", 400)  \
	CODE("unknown_tool_use", 400)       \
	CODE("bad_key", 400)                \
	CODE("key_conflict", 409)           \
	CODE("stale_run", 409)              \
	CODE("unknown_run", 409)            \
	CODE("run_active", 409)             \
	CODE("history_mismatch", 409)       \
	PASSING("storage_failed", 503)      \
	CODE("not_ready", 503)              \
	CODE("shutting_down", 503)          \
	CODE("owner_unreachable", 503)      \
	CODE("session_damaged", 503)        \
	CODE("keys_damaged", 503)           \
	CODE("already_resolved", 409)       \
	CODE("unknown_request", 409)        \
	CODE("not_prompting", 400)          \
	CODE("setting_refused", 400)        \
	CODE("no_agent", 409)               \
	CODE("unknown_agent", 400)          \
	CODE("bad_directory", 400)          \
	CODE("bad_message", 400)            \
	CODE("unknown_method", 400)

/** Returns the code at `index` (static text), or NULL behind the last one. */
const char *error_code_at(size_t index);
/** Returns the HTTP status of a code. The code must be in the table. */
unsigned error_code_status(const char *code);
/** Whether input that was refused with this code may be taken later, whatever the peer does. */
bool error_code_may_pass(const char *code);

#endif
