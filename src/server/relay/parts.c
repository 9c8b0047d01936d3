#include "holdfast/parts.h"

#include "holdfast/buffer.h"
#include "server/http_internal.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static void refuse_left_out(struct conn *conn);

/* A pattern ends with what any text fits (door.h), if more than one address is meant. */
#define LEFT_OUT(pattern)                                                          \
	{                                                                          \
		pattern, "GET, POST, PUT, PATCH, DELETE", .flags = ROUTE_LEFT_OUT, \
							  .serve = refuse_left_out \
	}

const struct part build_parts[] = {
	{
		.name = "agents",
		.build_option = "-Dagents=true",
		.is_in = HOLDFAST_HAS_AGENTS,
		.commands = "",
		.options =
			"agent agents agent-env agent-memory agent-processes agent-cgroup cwd sandbox "
			"sandbox-read sandbox-write sandbox-sockets sandbox-user-namespaces",
	},
	{
		.name = "postgres",
		.build_option = "-Dpostgres=true",
		.is_in = HOLDFAST_HAS_POSTGRES,
		.commands = "migrate doctor",
		.options = "store node-listen node-address",
	},
	{
		.name = "acp",
		.build_option = "-Ddoors=acp",
		.is_in = HOLDFAST_HAS_ACP,
		.commands = "",
		.options = "",
		.paths = (const struct route[]){LEFT_OUT("/acp"), {0}},
	},
	{
		.name = "ai",
		.build_option = "-Ddoors=ai",
		.is_in = HOLDFAST_HAS_AI,
		.commands = "",
		.options = "ai-sdk-cookie",
		.paths = (const struct route[]){LEFT_OUT("/api/ai/*"), {0}},
	},
	{
		.name = "durable_streams",
		.build_option = "-Ddoors=durable_streams",
		.is_in = HOLDFAST_HAS_DURABLE_STREAMS,
		.commands = "",
		.options = "",
		.paths = (const struct route[]){LEFT_OUT("/ds/*"), LEFT_OUT("/v1/stream/{name...}"),
			{0}},
	},
	{
		.name = "notify",
		.build_option = "-Dnotify=true",
		.is_in = HOLDFAST_HAS_NOTIFY,
		.commands = "",
		.options = "push-host push-address push-ca webhook webhook-secret webhook-address "
			   "webhook-ca webhook-http",
		.paths = (const struct route[]){LEFT_OUT("/api/push"), {0}},
	},
	{0},
};

static bool has_word(const char *words, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = words; *at; at += strspn(at, " ")) {
		size_t word = strcspn(at, " ");
		if (word == len && memcmp(at, name, len) == 0) {
			return true;
		}
		at += word;
	}
	return false;
}

/** Returns the part that is left out and has `name` among the words at `offset`, or NULL. */
static const struct part *find_lacking(const char *name, size_t offset)
{
	const struct part *part = build_parts;
	while (part->name &&
		(part->is_in ||
			!has_word(*(const char *const *)((const char *)part + offset), name))) {
		part++;
	}
	return part->name ? part : NULL;
}

const struct part *parts_lack_command(const char *name)
{
	return find_lacking(name, offsetof(struct part, commands));
}

const struct part *parts_lack_option(const char *name)
{
	return find_lacking(name, offsetof(struct part, options));
}

char *part_refusal(const struct part *part, const char *what)
{
	return xprintf("%s: this program was built without %s; build it with %s", what, part->name,
		part->build_option);
}

/** The variable of an option: HOLDFAST_ and its name in capitals. The caller frees it. */
static char *name_variable(const char *option, size_t len)
{
	char *name = xprintf("HOLDFAST_%.*s", (int)len, option);
	for (char *at = name; *at; at++) {
		*at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
	}
	return name;
}

char *parts_refuse_environment(void)
{
	char *why = NULL;
	for (const struct part *part = build_parts; part->name && !why; part++) {
		const char *at = part->is_in ? "" : part->options;
		for (size_t len; (len = strcspn(at, " ")) && !why; at += strspn(at, " ")) {
			char *name = name_variable(at, len);
			const char *value = getenv(name);
			why = value && *value ? part_refusal(part, name) : NULL;
			free(name);
			at += len;
		}
	}
	return why;
}

static void refuse_left_out(struct conn *conn)
{
	const struct part *part = http_door_state(conn); /* relay_doors.c */
	const char *pattern = conn->http->route->path;
	char *path = xstrndup(pattern, strcspn(pattern, "{*"));
	char *why = part_refusal(part, path);
	http_refuse(conn, ERROR_not_implemented, why);
	free(path);
	free(why);
}
