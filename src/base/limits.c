#include "holdfast/limits.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

static const struct limits defaults = {
	.soft_flush_ms = 200,
	.idle_flush_ms = 10000,
	.idle_block_flush_ms = 30000,
	.hold_ms = 500,
	.hold_fence_ms = 2000,
	.thought_flush_ms = 500,
	.paragraph_flush_size = 4 * KIB,
	.thought_size = 4 * KIB,
	.block_size = 64 * KIB,
	.preview_ms = 80,

	.frame_size = 1 * MIB,
	/* A batch of the largest events of an agent fits; more is several requests. */
	.body_size = 8 * MIB,
	/* Agents send whole files in one tool call: 1.24 MB was seen. */
	.event_size = 4 * MIB,
	.batch_events = 10000,
	.prompt_size = 512 * KIB,
	.prompt_queue = 100,
	.agent_line_size = 16 * MIB,
	.agent_file_size = 8 * MIB,
	.agent_stop_ms = 3000,

	.load_default = 50,
	.load_max = 5000,
	.page_size = 1 * MIB,
	.hot_tail_size = 256 * KIB,

	.segment_size = 64 * MIB,
	.journal_backlog = 16 * MIB,

	.outbox_frames = 256,
	.title_size = 1 * KIB,
};

const struct limits *limits_default(void)
{
	return &defaults;
}
