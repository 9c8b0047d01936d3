#include "holdfast/server_life.h"

#include <assert.h>

/* clang-format off */
static const bool may[][SERVER_STATES] = {
	/*                    starting serving draining closing closed */
	[MAY_ACCEPT]     = {  false,   true,   true,    true,   false },
	[MAY_SERVE]      = {  false,   true,   false,   false,  false },
	[MAY_JUDGE]      = {  false,   true,   false,   false,  false },
	[MAY_CREATE]     = {  false,   true,   false,   false,  false },
	[MAY_INPUT]      = {  true,    true,   true,    false,  false },
	[MAY_TAKE]       = {  true,    true,   false,   false,  false },
	[MAY_LEASE]      = {  true,    true,   true,    false,  false },
	[MAY_HAND_OVER]  = {  false,   false,  true,    false,  false },
	[MAY_RUN_AGENTS] = {  true,    true,   false,   false,  false },
	[MAY_RUN_TIMERS] = {  false,   true,   true,    false,  false },
	[MAY_WRITE]      = {  true,    true,   true,    true,   false },
	[MAY_KEEP_UP]    = {  true,    true,   true,    false,  false },
	[MAY_TELL]       = {  true,    true,   true,    true,   false },
};
/* clang-format on */

void server_reach(struct server_life *life, enum server_state state)
{
	if (!server_has_reached(life, state)) {
		atomic_store(&life->state, (int)state);
	}
}

bool server_has_reached(const struct server_life *life, enum server_state state)
{
	return atomic_load(&life->state) >= (int)state;
}

bool server_may(const struct server_life *life, enum server_act act)
{
	int state = atomic_load(&life->state);
	assert(state >= 0 && state < SERVER_STATES);
	return may[act][state];
}
