#include "acp_firewall.h"

#include <string.h>

/* Which prompt of the log a told one is. A turn begins with its prompt, in order. */

/** Whether a prompt begins there, or the last one ends. */
static bool is_border(const struct acp_known *known, size_t at)
{
	return at == known->texts[ACP_SAID_PROMPT].len ||
	       known->turns[acp_known_turn_of(known, ACP_SAID_PROMPT, at)].begin[ACP_SAID_PROMPT] ==
		       at;
}

static struct buffer prompt_of(const struct acp_known *known, size_t turn)
{
	size_t begin = known->turns[turn].begin[ACP_SAID_PROMPT];
	return (struct buffer){.data = known->texts[ACP_SAID_PROMPT].data + begin,
		.len = acp_known_turn_end(known, turn, ACP_SAID_PROMPT) - begin};
}

bool acp_known_has_same_prompt(struct acp_known *known, size_t turn, size_t other)
{
	struct buffer a = prompt_of(known, turn);
	struct buffer b = prompt_of(known, other);
	known->work += 4 + (a.len == b.len ? a.len : 0);
	return a.len == b.len && (!a.len || memcmp(a.data, b.data, a.len) == 0);
}

size_t acp_known_find_whole_prompt(struct acp_known *known, size_t from, const struct buffer *text)
{
	const struct buffer *in = &known->texts[ACP_SAID_PROMPT];
	size_t at = from < known->turn_count ? known->turns[from].begin[ACP_SAID_PROMPT] : in->len;
	while ((at = acp_known_find(known, in, at, in->len, text)) != SIZE_MAX) {
		if (is_border(known, at) && is_border(known, at + text->len)) {
			return acp_known_turn_of(known, ACP_SAID_PROMPT, at + text->len - 1);
		}
		at++;
	}
	return SIZE_MAX;
}

size_t acp_known_find_prompt(struct acp_known *known, size_t from, const struct buffer *text)
{
	const struct buffer *in = &known->texts[ACP_SAID_PROMPT];
	size_t found = acp_known_find_whole_prompt(known, from, text);
	if (found != SIZE_MAX || from >= known->turn_count) {
		return found;
	}
	size_t begin = known->turns[from].begin[ACP_SAID_PROMPT];
	if (text->len >= ACP_TELLING_LEN) {
		found = acp_known_find(known, in, begin, in->len, text);
		if (found != SIZE_MAX) {
			return acp_known_turn_of(known, ACP_SAID_PROMPT, found + text->len - 1);
		}
	}
	for (size_t turn = from; turn < known->turn_count && !acp_known_is_exhausted(known);
		turn++) {
		known->work++;
		struct buffer prompt = prompt_of(known, turn);
		if (prompt.len >= ACP_TELLING_LEN &&
			acp_known_find(known, text, 0, text->len, &prompt) != SIZE_MAX) {
			return turn;
		}
	}
	return SIZE_MAX;
}
