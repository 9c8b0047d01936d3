/* What the server calls of the files for nodes (placement.h). */
#include "holdfast/node_placement.h"

#include "mirror_internal.h"

#include "node_identity.h"

#include <stdlib.h>

static struct placement *create(struct server *server)
{
	struct nodes *nodes = xcalloc(1, sizeof(*nodes));
	nodes->placement.ops = &node_placement_ops;
	nodes->server = server;
	list_init(&nodes->links);
	list_init(&nodes->links_over);
	list_init(&nodes->mirrors);
	list_init(&nodes->mirrors_due);
	return &nodes->placement;
}

static struct nodes *nodes_at(struct placement *placement)
{
	return (struct nodes *)placement;
}

static void destroy(struct placement *placement)
{
	node_mirrors_close(nodes_at(placement));
	node_links_close(nodes_at(placement));
	free(placement);
}

static void sweep(struct placement *placement)
{
	node_links_sweep(nodes_at(placement));
	node_mirrors_sweep(nodes_at(placement));
}

static void begin_end_tick(struct placement *placement)
{
	node_links_end_tick(nodes_at(placement));
}

static void end_tick(struct placement *placement)
{
	node_mirrors_end_tick(nodes_at(placement));
	node_links_end_tick(nodes_at(placement)); /* those that connections have released */
}

static struct node_socket *open_socket(struct conn *conn, const char *address, const char *target,
	const struct node_socket_ops *ops, void *owner)
{
	struct buffer identity = {0};
	node_append_identity(conn, &identity, "GET", target);
	struct node_socket *socket = node_socket_open(conn->server,
		&(struct node_socket_config){
			.address = address, .target = target, .identity = buffer_cstr(&identity)},
		ops, owner);
	buffer_finish(&identity);
	return socket;
}

static const struct placement_sockets sockets = {
	.open = open_socket,
	.leave = node_socket_leave,
	.send = node_socket_send,
	.is_choked = node_socket_is_choked,
	.pause = node_socket_pause,
	.kept = node_socket_kept,
	.sweep = node_socket_sweep,
};

const struct placement_ops node_placement_ops = {
	.create = create,
	.destroy = destroy,
	.sweep = sweep,
	.begin_end_tick = begin_end_tick,
	.end_tick = end_tick,
	.admit = node_admit,
	.check_token = node_check_token,
	.head_more = NODE_IDENTITY_MAX,
	.seek = node_seek,
	.seek_new = node_seek_new,
	.seek_socket = node_seek_socket,
	.channel = node_mirror_channel,
	.join = node_mirror_tell,
	.leave = node_mirror_leave,
	.stream_ops = &mirror_viewer_ops,
	.sockets = &sockets,
};
