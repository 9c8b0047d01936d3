/*
 * A mirror: a session of another node that is watched here (proto/nodes.md). It has one WebSocket
 * to the owner, a log of what came by it, and a channel whose observers are the local viewers.
 * Events are rendered, filtered and paged here; older ones come from the store. Requests for the
 * owner go up with their viewer's number. If the WebSocket ends, all viewers are closed; they
 * reconnect and resume from their positions.
 */
#include "mirror_internal.h"

#include "node_socket.h"
#include "server/ws_internal.h"

#include "mirror.h"
#include "node_identity.h"

#include <stdlib.h>
#include <string.h>

void mirror_at_end_of_tick(struct mirror *mirror)
{
	if (list_empty(&mirror->due_link)) {
		list_append(&nodes_of(mirror->server)->mirrors_due, &mirror->due_link);
	}
}

/* --- to the owner --- */

static void send_up(struct mirror *mirror, struct buffer *message)
{
	if (mirror->socket) {
		node_socket_send(mirror->socket, message->data, message->len);
	}
	buffer_finish(message);
}

static void tell_viewer(struct mirror *mirror, const struct conn *conn)
{
	struct buffer identity = {0};
	struct buffer message = {0};
	node_append_identity(conn, &identity, NULL, conn->session_id);
	mirror_append_viewer(
		&message, conn->placed->number, conn->ws->client_id, buffer_cstr(&identity));
	buffer_finish(&identity);
	send_up(mirror, &message);
}

void node_mirror_tell(struct conn *conn)
{
	if (conn->placed) {
		tell_viewer(conn->placed->mirror, conn);
	}
}

static void pass_on(struct conn *conn, const char *text, size_t len)
{
	struct mirror *mirror = conn->placed->mirror;
	struct buffer message = {0};
	mirror_append_request(&message, conn->placed->number, text, len);
	send_up(mirror, &message);
	if (mirror->socket && node_socket_is_choked(mirror->socket)) {
		conn->is_parked = true;
		conn_update_flow(conn);
	}
}

/** Asks the owner for HTML of the open event, or tells it that no viewer wants that any more. */
static void ask_for_previews(struct mirror *mirror, bool wanted)
{
	struct buffer message = {0};
	mirror->has_previews = wanted;
	mirror_append_previews(&message, wanted);
	send_up(mirror, &message);
}

static void handle_joined(void *arg)
{
	ask_for_previews(arg, true);
}

/* --- viewers --- */

void mirror_begin(struct mirror *mirror, struct conn *conn)
{
	struct ws_socket *ws = conn->ws;
	if (conn->is_dead || conn->is_closing || ws->observer || !conn_check_query(conn)) {
		return;
	}
	struct observer_config config = ws_observer_config(conn);
	tell_viewer(mirror, conn);
	ws->observer = observer_create(&mirror->channel, &config, &ws_observer_socket_ops, conn);
	metrics_add(conn->server->metrics, ws_observer_metric(conn), 1);
}

static void go_on(struct conn *conn)
{
	conn->is_parked = false;
	conn_resume(conn);
}

/** It watches the mirror no more. Returns its number. */
static uint64_t remove_viewer(struct conn *conn)
{
	struct placed *placed = conn->placed;
	uint64_t number = placed->number;
	conn->placed = NULL;
	list_remove(&conn->kind_link);
	hash_remove(placed->mirror->by_number, (const char *)&number, sizeof(number));
	free(placed);
	return number;
}

static void leave(struct conn *conn)
{
	bool is_known = conn->ws->observer != NULL;
	if (is_known) {
		metrics_add(conn->server->metrics, ws_observer_metric(conn), (uint64_t)-1);
	}
	observer_destroy(conn->ws->observer);
	conn->ws->observer = NULL;
	node_mirror_leave(conn, is_known);
}

void node_mirror_leave(struct conn *conn, bool is_known)
{
	if (!conn->placed) {
		return;
	}
	struct mirror *mirror = conn->placed->mirror;
	uint64_t number = remove_viewer(conn);
	mirror_at_end_of_tick(mirror);
	if (is_known) {
		struct buffer message = {0};
		mirror_append_leave(&message, number);
		send_up(mirror, &message);
		if (mirror->has_previews && !mirror->channel.delta_observers[DELTAS_HTML]) {
			ask_for_previews(mirror, false);
		}
	}
}

/** Answers a request here if possible; returns false if it is for the owner. */
static bool answer_here(struct conn *conn, struct request *request)
{
	const struct channel *channel = &conn->placed->mirror->channel;
	const char *time =
		request->keepalive.client_time[0] ? request->keepalive.client_time : NULL;
	switch (request->type) {
	case REQUEST_TOKEN:
		ws_take_token(conn, request);
		return true;
	case REQUEST_LOAD_EVENTS:
		observer_load(conn->ws->observer, &request->load);
		return true;
	case REQUEST_KEEPALIVE:
		observer_send(conn->ws->observer,
			frame_keepalive_ack(time, clock_now_ms(conn->server->clock),
				channel->max_seq, session_log_epoch(channel->log), &channel->status,
				conn_hides(conn)));
		return true;
	default:
		return false;
	}
}

static void viewer_message(struct conn *conn, const char *text, size_t len)
{
	struct refusal refusal;
	struct request request;
	if (!conn->placed || !conn->ws->observer) {
		return;
	}
	if (request_parse(text, len, conn->server->limits, SIDE_OBSERVER,
		    session_table_numbers(conn->server->sessions), &request, &refusal) < 0) {
		conn_send_refusal(conn, &refusal);
		return;
	}
	bool is_local = conn_may(conn, RIGHT_WATCH) || request.type == REQUEST_TOKEN;
	if (!is_local || !answer_here(conn, &request)) {
		pass_on(conn, text, len);
	}
	request_finish(&request);
}

static void viewer_open(struct conn *conn)
{
	if (conn->placed) {
		mirror_begin(conn->placed->mirror, conn);
	}
}

static void viewer_writable(struct conn *conn)
{
	if (conn->ws->observer) {
		observer_pump(conn->ws->observer);
	} else {
		conn_flush(conn);
	}
}

static void viewer_renewed(struct conn *conn)
{
	ws_observer_renewed(conn);
	if (conn->placed && conn->ws->observer) {
		tell_viewer(conn->placed->mirror, conn);
	}
}

const struct conn_ops mirror_viewer_ops = {
	.open = viewer_open,
	.message = viewer_message,
	.writable = viewer_writable,
	.closed = leave,
	.sweep = ws_tell_presence,
	.renewed = viewer_renewed,
};

static struct conn *find_viewer(struct mirror *mirror, uint64_t number)
{
	struct conn *conn = hash_get(mirror->by_number, (const char *)&number, sizeof(number));
	return conn && conn->ws && conn->ws->observer ? conn : NULL;
}

/* --- end --- */

void mirror_end(struct mirror *mirror, unsigned code, const char *reason)
{
	bool is_gone = code == 4404;
	mirror->socket = NULL;
	mirror_at_end_of_tick(mirror);
	if (mirror->log && is_gone) {
		channel_gone(&mirror->channel, reason);
	} else if (mirror->log && code == 1011) {
		channel_taken_back(&mirror->channel);
	} else if (mirror->log) {
		channel_close(&mirror->channel, code, reason);
	}
	list_for_each_safe(link, tmp, &mirror->viewers) {
		struct conn *conn = list_entry(link, struct conn, kind_link);
		remove_viewer(conn);
		if (conn->http) {
			mirror_lose_request(conn, is_gone);
			continue;
		}
		if (!conn->ws->observer && is_gone) {
			ws_say_not_found(conn);
		} else if (!conn->ws->observer) {
			conn_close(conn, code, reason);
		}
		go_on(conn);
	}
}

/** Ends the mirror because the owner's messages are invalid. */
static void give_up(struct mirror *mirror, const char *why)
{
	struct node_socket *socket = mirror->socket;
	metrics_add(mirror->server->metrics, METRIC_NODE_FAILURES, 1);
	node_warn(mirror->server, mirror->address, why);
	mirror_end(mirror, WS_CLOSE_GOING_AWAY, "owner gone");
	node_socket_leave(socket);
}

void mirror_destroy(struct mirror *mirror)
{
	node_socket_leave(mirror->socket);
	list_remove(&mirror->link);
	list_remove(&mirror->due_link);
	if (mirror->log) {
		channel_finish(&mirror->channel);
		session_log_mirror_free(mirror->log);
	}
	hash_destroy(mirror->by_number);
	free(mirror->title);
	free(mirror->last_prompt_id);
	free(mirror->usage);
	free(mirror->queue);
	free(mirror->id);
	free(mirror->address);
	free(mirror);
}

/* --- from the owner --- */

static void set_text(char **at, const char *text, size_t len)
{
	free(*at);
	*at = text ? xstrndup(text, len) : NULL;
}

static void set_string(char **at, const char *text)
{
	set_text(at, text, text ? strlen(text) : 0);
}

/**
 * Takes the session's current state; usage and queue, which only `state` has, stay as they were.
 */
static void take_about(struct mirror *mirror, const struct connected_frame *about)
{
	struct channel *channel = &mirror->channel;
	struct session_status status = about->status;
	set_string(&mirror->title, about->labels.title);
	mirror->labels = about->labels;
	mirror->labels.title = mirror->title;
	mirror->agent_state = about->agent_state;
	set_string(&mirror->last_prompt_id, about->last_prompt_id);
	channel->last_prompt_id = mirror->last_prompt_id;
	channel->last_prompt_seq = about->last_prompt_seq;
	status.usage = mirror->usage;
	status.queue_text = mirror->queue;
	channel_set_status(channel, &status);
	session_log_mirror_prune(mirror->log, about->first_seq);
}

/** Takes the session's current state with usage and queue. */
static void take_state(struct mirror *mirror, const struct mirror_message *message)
{
	const struct mirror_part *usage = &message->parts[0];
	const struct mirror_part *queue = &message->parts[1];
	set_text(&mirror->usage, usage->len ? usage->text : NULL, usage->len);
	set_text(&mirror->queue, queue->text, queue->len);
	take_about(mirror, &message->about);
}

void mirror_ask_reach(struct mirror *mirror)
{
	struct buffer message = {0};
	mirror_append_reach(&message, mirror->viewer_count);
	send_up(mirror, &message);
}

/** Begins viewers whose event, `reached_seq`, is here now. */
static void begin_reached(struct mirror *mirror)
{
	uint64_t begun = mirror->begun;
	if (mirror->reached_seq > mirror->channel.max_seq || mirror->reached <= begun) {
		return;
	}
	mirror->begun = mirror->reached;
	list_for_each_safe(link, tmp, &mirror->viewers) {
		struct conn *conn = list_entry(link, struct conn, kind_link);
		if (conn->placed->number <= begun || conn->placed->number > mirror->reached) {
			continue;
		}
		if (conn->http) {
			mirror_go_on_request(conn);
		} else {
			mirror_begin(mirror, conn);
			go_on(conn);
		}
	}
}

static void take_reached(struct mirror *mirror, const struct mirror_message *message)
{
	if (message->viewer > mirror->reached && message->viewer <= mirror->viewer_count) {
		mirror->reached = message->viewer;
		mirror->reached_seq = message->seq;
		begin_reached(mirror);
	}
}

static void get_labels(const struct session_log *log, struct session_labels *ret)
{
	const struct mirror *mirror = session_log_owner(log);
	*ret = mirror->labels;
}

/** Creates the log and the channel: from here on viewers can watch. */
static void take_welcome(struct mirror *mirror, const struct mirror_message *message)
{
	struct channel *channel = &mirror->channel;
	const struct log_place place = {.number = message->log,
		.epoch = message->about.epoch,
		.first_seq = message->about.first_seq,
		.max_seq = message->about.max_seq};
	mirror->log = session_table_mirror(mirror->server->sessions, mirror->id, &place, mirror);
	channel_init(channel, mirror->server->limits, mirror->log);
	channel->metrics = mirror->server->metrics;
	channel->turns = mirror->server->turns;
	channel->max_seq = place.max_seq;
	channel->get_labels = get_labels;
	channel->agent_state = &mirror->agent_state;
	channel->joined = handle_joined;
	channel->joined_arg = mirror;
	channel->open_seq = message->seq;
	channel->open_type = message->event;
	buffer_append(&channel->open_text, message->parts[2].text, message->parts[2].len);
	buffer_append(&channel->open_html, message->parts[3].text, message->parts[3].len);
	take_state(mirror, message);
	mirror->reached = 1; /* the first viewer came before the owner was asked */
	begin_reached(mirror);
	if (mirror->viewer_count > 1) {
		mirror_ask_reach(mirror);
	}
}

/** Returns false if the events do not follow on those that are here. */
static bool take_events(struct mirror *mirror, struct mirror_message *message)
{
	struct event *event;
	int r;
	while ((r = mirror_next_event(message, &event)) > 0) {
		r = session_log_mirror_add(mirror->log, event);
		event_unref(event);
		if (r < 0) {
			return false;
		}
	}
	take_about(mirror, &message->about);
	mirror->channel.max_seq = session_log_last_seq(mirror->log);
	channel_wake(&mirror->channel);
	begin_reached(mirror);
	return r == 0;
}

/** Text with a gap is useless: drops a delta that does not continue the text so far. */
static void take_delta(struct mirror *mirror, const struct mirror_message *message)
{
	struct channel *channel = &mirror->channel;
	size_t had = channel->open_seq == message->seq ? channel->open_text.len : 0;
	if (message->seq > channel->max_seq && message->offset == had) {
		channel_delta(channel, message->seq, message->event, message->parts[0].text,
			message->parts[0].len);
	}
}

/** Returns false if the parts are not frames. */
static bool take_activity(struct mirror *mirror, const struct mirror_message *message)
{
	const struct mirror_part *parts = message->parts;
	struct frame_parts shown;
	struct frame_parts redacted = {0};
	if (!frame_split(parts[0].text, parts[0].len, &shown) ||
		(parts[1].len && !frame_split(parts[1].text, parts[1].len, &redacted))) {
		return false;
	}
	channel_send_activity(
		&mirror->channel, &(struct activity){message->seq, message->hides, shown.data,
					  shown.data_len, redacted.data, redacted.data_len});
	return true;
}

/** Returns false if the part is not a frame. */
static bool take_answer(struct mirror *mirror, const struct mirror_message *message)
{
	const struct mirror_part *part = &message->parts[0];
	struct conn *conn = find_viewer(mirror, message->viewer);
	struct frame_parts parts;
	if (!frame_split(part->text, part->len, &parts)) {
		return false;
	}
	if (conn) {
		observer_send(conn->ws->observer, frame_of_text(part->text, part->len));
	}
	return true;
}

static void take_dismiss(struct mirror *mirror, const struct mirror_message *message)
{
	struct conn *conn = find_viewer(mirror, message->viewer);
	if (conn) {
		conn_close(conn, message->code, message->reason);
	}
}

/** Returns false if an owner does not send such a message, or not now. */
static bool take(struct mirror *mirror, struct mirror_message *message)
{
	struct channel *channel = &mirror->channel;
	if ((mirror->log == NULL) != (message->type == MIRROR_WELCOME)) {
		return false;
	}
	switch (message->type) {
	case MIRROR_WELCOME:
		take_welcome(mirror, message);
		return true;
	case MIRROR_EVENTS:
		return take_events(mirror, message);
	case MIRROR_ABOUT:
		take_about(mirror, &message->about);
		return true;
	case MIRROR_STATE:
		take_state(mirror, message);
		channel_send_state(channel);
		return true;
	case MIRROR_DELTA:
		take_delta(mirror, message);
		return true;
	case MIRROR_PREVIEW:
		channel_preview(channel, message->seq, message->event, message->parts[0].text,
			message->parts[0].len);
		return true;
	case MIRROR_ACTIVITY:
		return take_activity(mirror, message);
	case MIRROR_ANSWER:
		return take_answer(mirror, message);
	case MIRROR_DISMISS:
		take_dismiss(mirror, message);
		return true;
	case MIRROR_REACHED:
		take_reached(mirror, message);
		return true;
	default:
		return false;
	}
}

static void handle_message(void *owner, const char *text, size_t len)
{
	struct mirror *mirror = owner;
	struct mirror_message message;
	mirror_at_end_of_tick(mirror);
	if (mirror_read(text, len, &message) < 0) {
		give_up(mirror, "its message about a session cannot be parsed");
		return;
	}
	if (!take(mirror, &message)) {
		give_up(mirror, "its message about a session is out of order");
	}
	mirror_finish(&message);
}

static void handle_opened(void *owner)
{
	/* The owner sends the first message. */
}

static void handle_writable(void *owner)
{
	struct mirror *mirror = owner;
	list_for_each_safe(link, tmp, &mirror->viewers) {
		struct conn *conn = list_entry(link, struct conn, kind_link);
		if (conn->is_parked && conn->placed->number <= mirror->begun) {
			go_on(conn);
		}
	}
}

static void handle_closed(void *owner, unsigned code, const char *reason)
{
	mirror_end(owner, code, reason);
}

const struct node_socket_ops mirror_socket_ops = {
	.opened = handle_opened,
	.message = handle_message,
	.writable = handle_writable,
	.closed = handle_closed,
};
