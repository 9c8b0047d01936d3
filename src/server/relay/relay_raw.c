#include "relay_raw.h"

static bool has_disk(void *arg)
{
	return session_table_has_disk(arg);
}

static void note_written(void *arg, uint64_t bytes)
{
	session_table_note_others(arg, bytes);
}

struct raw_store *relay_open_raw(const struct config *config, uv_loop_t *loop,
	const struct clock *clock, struct session_table *sessions)
{
	if (config->store || !HOLDFAST_HAS_DURABLE_STREAMS) {
		return NULL;
	}
	return raw_open(&(struct raw_config){.loop = loop,
		.limits = &config->limits,
		.clock = clock,
		.dir = config->data_dir,
		.is_relaxed = config->durability == DURABILITY_WRITE,
		.has_room = has_disk,
		.wrote = note_written,
		.arg = sessions});
}
