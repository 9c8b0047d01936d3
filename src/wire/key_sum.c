#include "holdfast/key_sum.h"

#include "holdfast/buffer.h"
#include "holdfast/requests.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/** KEY_SUM_DOUBLES: as jansson writes numbers. */
static void append_with_doubles(const json_t *data, struct buffer *out)
{
	char *sorted = json_dumps(data, JSON_COMPACT | JSON_SORT_KEYS);
	buffer_append_str(out, sorted ? sorted : "");
	free(sorted);
}

/** How each rule writes the data. */
static void (*const append_data[KEY_SUM_RULES])(const json_t *data, struct buffer *out) = {
	[KEY_SUM_DOUBLES] = append_with_doubles,
};

int key_sum_make(const struct input_event *in, unsigned rule, struct key_sum *ret)
{
	struct buffer content = {0};
	if (rule >= KEY_SUM_RULES) {
		return -ENOTSUP;
	}
	if (in->type == EVENT_CUSTOM) {
		buffer_append(&content, in->type_name, in->type_len);
	} else {
		buffer_append_str(&content, event_type_name(in->type));
	}
	buffer_append_char(&content, '\0');
	buffer_append(&content, in->message_id ? in->message_id : "", in->message_id_len);
	buffer_append_char(&content, '\0');
	append_data[rule](in->object, &content);
	*ret = (struct key_sum){.value = XXH3_64bits(content.data, content.len), .rule = rule};
	buffer_finish(&content);
	return 0;
}
