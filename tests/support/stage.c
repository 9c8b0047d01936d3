#include "stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static int set_up(void **state, void (*init)(struct rig *rig), size_t hot_tail_size)
{
	struct stage *st = xcalloc(1, sizeof(*st));
	init(&st->rig);
	st->rig.limits.hot_tail_size = hot_tail_size;
	assert_int_equal(rig_open(&st->rig), 0);
	st->session = rig_session(&st->rig, "s");
	st->channel = session_channel(st->session);
	rig_settle(&st->rig);
	*state = st;
	return 0;
}

int stage_setup(void **state)
{
	return set_up(state, rig_init_in_memory, limits_default()->hot_tail_size);
}

int stage_setup_on_disk(void **state)
{
	return set_up(state, rig_init, limits_default()->hot_tail_size);
}

int stage_setup_cold(void **state)
{
	return set_up(state, rig_init_in_memory, 1);
}

int stage_setup_cold_on_disk(void **state)
{
	return set_up(state, rig_init, 1);
}

int stage_teardown(void **state)
{
	struct stage *st = *state;
	if (st->socket.frames) {
		fake_socket_finish(&st->socket);
	}
	rig_finish(&st->rig);
	free(st);
	return 0;
}

void stage_append(struct stage *st, int count)
{
	for (int i = 0; i < count; i++) {
		rig_put(st->session, "x-note", "{\"text\":\"some text to fill a line with\"}");
	}
}

void stage_fill(struct stage *st, int count)
{
	stage_append(st, count);
	rig_settle(&st->rig);
}

void stage_open_socket(struct stage *st, enum deltas deltas)
{
	fake_socket_open(&st->socket, st->channel, deltas);
	fake_socket_expect(&st->socket, "connected");
}

void stage_watch(struct stage *st)
{
	struct load_request load = load_after(0, 50, false);
	stage_open_socket(st, DELTAS_TEXT);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	buffer_clear(&st->socket.log);
}

void stage_restart(struct stage *st)
{
	fake_socket_finish(&st->socket);
	rig_close(&st->rig);
	assert_int_equal(rig_open(&st->rig), 0);
	st->session = rig_session(&st->rig, "s");
	st->channel = session_channel(st->session);
	stage_watch(st);
}
