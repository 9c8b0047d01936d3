#include "holdfast/box.h"

#include "process_internal.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct box {
	struct box_rules rules;
	void (*over)(void *owner, enum limit limit, const char *why);
	void *owner;
	struct list parts;
	unsigned long start; /* number of the current start of the agent */
	struct usage used; /* by the children of this start */
	bool is_over;
	char name[ORDERS_NAME_SIZE]; /* of this start, for what it creates on disk */
};

struct box *box_create(const struct box_rules *rules,
	void (*over)(void *owner, enum limit limit, const char *why), void *owner)
{
	struct box *box = xcalloc(1, sizeof(*box));
	box->rules = *rules;
	box->over = over;
	box->owner = owner;
	list_init(&box->parts);
	return box;
}

void box_destroy(struct box *box)
{
	free(box);
}

void box_begin(struct box *box)
{
	box->start++;
	box->used = (struct usage){0};
	box->is_over = false;
	/* Unique among all starts, of this process and of others. */
	snprintf(box->name, sizeof(box->name), "%d-%" PRIx64, (int)getpid(), uv_hrtime());
}

void box_enter(struct box *box, struct box_part *part, struct child *child)
{
	part->child = child;
	part->start = box->start;
	list_append(&box->parts, &part->link);
}

void box_leave(struct box *box, struct box_part *part)
{
	if (part->start == box->start) {
		box->used.processes -= part->used.processes;
		box->used.memory -= part->used.memory;
	}
	list_remove(&part->link);
}

static void add_rule(struct buffer *out, const char *name, const char *value)
{
	buffer_printf(out, "%s%c%s%c", name, 0, value, 0);
}

static void add_sandbox(const struct sandbox *sandbox, struct buffer *out)
{
	for (char **path = sandbox->reads; path && *path; path++) {
		add_rule(out, AGENT_GUARD_READ, *path);
	}
	for (char **path = sandbox->writes; path && *path; path++) {
		add_rule(out, AGENT_GUARD_WRITE, *path);
	}
	for (char **path = sandbox->roots; path && *path; path++) {
		add_rule(out, AGENT_GUARD_ROOT, *path);
	}
	if (sandbox->sockets) {
		add_rule(out, AGENT_GUARD_SOCKETS, "on");
	}
	if (sandbox->namespaces) {
		add_rule(out, AGENT_GUARD_NAMESPACES, "on");
	}
	add_rule(out, AGENT_GUARD_TMP, sandbox->tmp);
}

const char *box_name(const struct box *box)
{
	return box->name;
}

void box_add_rules(const struct box_rules *rules, struct buffer *out)
{
	if (rules->sandbox) {
		add_sandbox(rules->sandbox, out);
	}
	if (rules->cgroup) {
		add_rule(out, AGENT_GUARD_CGROUP, rules->cgroup);
	}
	if (rules->memory_max > 0) {
		buffer_printf(out, AGENT_GUARD_MEMORY "%c%zu%c", 0, rules->memory_max, 0);
	}
	if (rules->processes_max > 0) {
		buffer_printf(out, AGENT_GUARD_PROCESSES "%c%zu%c", 0, rules->processes_max, 0);
	}
}

static void kill_all(struct box *box)
{
	list_for_each(link, &box->parts) {
		child_kill(list_entry(link, struct box_part, link)->child);
	}
}

static void tell(struct box *box)
{
	struct buffer why = {0};
	enum limit limit = LIMIT_agent_processes;
	if (box->rules.memory_max > 0 && box->used.memory > box->rules.memory_max) {
		limit = LIMIT_agent_memory;
		buffer_printf(&why,
			"the agent and its commands used more than the %zu MiB of memory that --agent-memory allows; give it a smaller task, or raise the limit",
			box->rules.memory_max >> 20);
	} else {
		buffer_printf(&why,
			"the agent and its commands had more than the %zu processes and threads that --agent-processes allows; look for a command that keeps starting processes, or raise the limit",
			box->rules.processes_max);
	}
	box->over(box->owner, limit, buffer_cstr(&why));
	buffer_finish(&why);
}

void box_note(struct box *box, struct box_part *part, const struct usage *used)
{
	if (part->start != box->start) {
		return;
	}
	box->used.processes += used->processes - part->used.processes;
	box->used.memory += used->memory - part->used.memory;
	part->used = *used;
	const struct box_rules *most = &box->rules;
	bool is_over = (most->memory_max > 0 && box->used.memory > most->memory_max) ||
		       (most->processes_max > 0 && box->used.processes > most->processes_max);
	if (is_over && !box->is_over) {
		box->is_over = true;
		kill_all(box);
		tell(box);
	}
}
