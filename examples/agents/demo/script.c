#include "script.h"

#include <string.h>

enum { WORD_LENGTH_MAX = 16, RATE_SLOW = 10 };

static bool is_word_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Reads a word of letters, in lower case. Returns its length; `word` keeps only words that fit. */
static size_t take_word(const char *text, size_t len, char word[WORD_LENGTH_MAX])
{
	size_t n = 0;
	while (n < len && is_word_byte(text[n])) {
		if (n < WORD_LENGTH_MAX - 1) {
			word[n] = (char)(text[n] | 0x20);
		}
		n++;
	}
	/* A longer word is unknown anyway, and its beginning must not look like a known one. */
	word[n < WORD_LENGTH_MAX ? n : 0] = '\0';
	return n;
}

/* Reads `=123` after a word; returns the bytes read, 0 if there is no number. */
static size_t take_number(const char *text, size_t len, long max, long *ret_number)
{
	if (len < 2 || text[0] != '=' || text[1] < '0' || text[1] > '9') {
		return 0;
	}
	long number = 0;
	size_t n = 1;
	for (; n < len && text[n] >= '0' && text[n] <= '9'; n++) {
		number = number * 10 + (text[n] - '0');
		if (number > max) {
			number = max;
		}
	}
	*ret_number = number;
	return n;
}

/* Compares words, ignoring a final "s": "lists" chooses what "list" does. */
static bool is_same_word(const char *known, const char *word)
{
	size_t len = strlen(known);
	return strncmp(known, word, len) == 0 && (!word[len] || strcmp(word + len, "s") == 0);
}

static void add_scripts(struct demo_reply *reply, const char *word)
{
	for (size_t i = 0; i < demo_word_count; i++) {
		if (!is_same_word(demo_words[i].word, word)) {
			continue;
		}
		const struct demo_step *const *script = demo_words[i].scripts;
		for (; *script && reply->count < DEMO_SCRIPTS_MAX; script++) {
			reply->scripts[reply->count++] = *script;
		}
	}
}

static void set_rate(struct demo_reply *reply, long rate)
{
	reply->has_rate = true;
	reply->rate = rate;
}

void demo_reply_compose(struct demo_reply *reply, const char *prompt, size_t len)
{
	*reply = (struct demo_reply){.fill = DEMO_FILL_DEFAULT};
	size_t at = 0;
	while (at < len) {
		char word[WORD_LENGTH_MAX];
		long number;
		size_t taken = take_word(prompt + at, len - at, word);
		at += taken ? taken : 1;
		if (!taken) {
			continue;
		}
		if (strcmp(word, "slow") == 0) {
			set_rate(reply, RATE_SLOW);
		} else if (strcmp(word, "rate") == 0) {
			size_t digits = take_number(prompt + at, len - at, DEMO_RATE_MAX, &number);
			if (digits) {
				set_rate(reply, number);
			}
			at += digits;
		} else if (strcmp(word, "long") == 0) {
			at += take_number(prompt + at, len - at, DEMO_FILL_MAX, &reply->fill);
		}
		add_scripts(reply, word);
	}
	if (!reply->count) {
		reply->scripts[reply->count++] = demo_script_hello;
	}
}
