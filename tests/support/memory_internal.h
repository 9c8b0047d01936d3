/* What the two files of the memory engine share: memory.c is the database, memory_engine.c uses it. */
#ifndef HOLDFAST_TESTS_MEMORY_INTERNAL_H
#define HOLDFAST_TESTS_MEMORY_INTERNAL_H

#include "memory_engine.h"

#include "core/store/store_internal.h"

struct kept {
	struct list link;
	struct record record; /* with `bytes` as its data */
	char bytes[];
};

struct kept_session {
	char *id;
	uint64_t epoch;
	int64_t created_at;
	uint64_t fence;
	uint64_t last_record;
	struct buffer created; /* data of its RECORD_CREATE */
	struct list records; /* struct kept, from the newest snapshot on */
	struct event **events; /* from seq 1 on */
	int64_t *times;
	size_t count;
	struct buffer names; /* lines */
	uint64_t input_names;
};

struct memory {
	struct hash *sessions;
	enum memory_fault fault;
};

/** What a group has of one log. */
struct part {
	struct log_part part; /* the first member */
	uint64_t fence;
	uint64_t after; /* the number of the log's last record before these */
	struct list records; /* struct kept */
	bool is_fenced;
};

void memory_forget_records(struct list *records);
/** All of a part, or with an old fence nothing. */
void memory_apply(struct memory *memory, struct part *part);

#endif
