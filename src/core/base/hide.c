#include "holdfast/hide.h"

#include <string.h>

static const struct {
	unsigned bit;
	const char *word;
} words[] = {{HIDE_THOUGHTS, "thoughts"}, {HIDE_TOOLS, "tools"}};

unsigned hide_of(const char *word)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i].word, word) == 0) {
			return words[i].bit;
		}
	}
	return HIDE_NOTHING;
}

void hide_append(struct buffer *out, unsigned hide)
{
	const char *comma = "";
	buffer_append_char(out, '[');
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (hide & words[i].bit) {
			buffer_printf(out, "%s\"%s\"", comma, words[i].word);
			comma = ",";
		}
	}
	buffer_append_char(out, ']');
}
