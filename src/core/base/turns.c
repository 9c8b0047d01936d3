#include "holdfast/turns.h"

#include <uv.h>

void turns_init(struct turns *turns, int64_t budget_ms)
{
	*turns = (struct turns){.budget_ns = (uint64_t)budget_ms * 1000000};
	turns->left_ns = turns->budget_ns;
	list_init(&turns->waiting);
}

void turn_init(struct turn *turn, void (*run)(struct turn *turn))
{
	list_init(&turn->link);
	turn->run = run;
}

static void run(struct turns *turns, struct turn *turn)
{
	uint64_t begun = uv_hrtime();
	turn->run(turn);
	uint64_t took = uv_hrtime() - begun;
	turns->left_ns = took < turns->left_ns ? turns->left_ns - took : 0;
}

bool turns_take(struct turns *turns, struct turn *turn)
{
	if (turn_is_waiting(turn)) {
		return false;
	}
	if (turns->left_ns && list_empty(&turns->waiting)) {
		run(turns, turn);
		return true;
	}
	list_append(&turns->waiting, &turn->link);
	return false;
}

void turn_cancel(struct turn *turn)
{
	list_remove(&turn->link);
}

bool turn_is_waiting(const struct turn *turn)
{
	return !list_empty(&turn->link);
}

void turns_renew(struct turns *turns)
{
	turns->left_ns = turns->budget_ns;
}

bool turns_go_on(struct turns *turns)
{
	while (turns->left_ns && !list_empty(&turns->waiting)) {
		struct turn *turn = list_entry(turns->waiting.next, struct turn, link);
		list_remove(&turn->link);
		run(turns, turn);
	}
	return !list_empty(&turns->waiting);
}
