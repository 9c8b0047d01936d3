/*
 * The media type of a blob, from its first bytes. A type that the sender claims does not count: it
 * could make a browser run an image as a script, and the same bytes must be the same for everyone.
 */
#include "holdfast/blobs.h"

#include "holdfast/utf8.h"

#include <string.h>

static const char text_type[] = "text/plain; charset=utf-8";

/*
 * The known types. is_safe: files of this type cannot contain scripts. SVG and HTML are text here.
 */
static const struct {
	const char *type;
	bool is_safe;
	unsigned char at;
	unsigned char len;
	const char *bytes;
	const char *front; /* bytes that the file must also begin with, or NULL */
} table[] = {
	{"image/png", true, 0, 8, "\x89PNG\r\n\x1a\n", NULL},
	{"image/jpeg", true, 0, 3, "\xff\xd8\xff", NULL},
	{"image/gif", true, 0, 6, "GIF87a", NULL},
	{"image/gif", true, 0, 6, "GIF89a", NULL},
	{"image/webp", true, 8, 4, "WEBP", "RIFF"},
	{"audio/wav", true, 8, 4, "WAVE", "RIFF"},
	{"image/avif", true, 4, 8, "ftypavif", NULL},
	{"audio/mp4", true, 4, 8, "ftypM4A ", NULL},
	{"video/mp4", true, 4, 4, "ftyp", NULL},
	{"audio/ogg", true, 0, 4, "OggS", NULL},
	{"audio/flac", true, 0, 4, "fLaC", NULL},
	{"audio/mpeg", true, 0, 3, "ID3", NULL},
	{"audio/mpeg", true, 0, 2, "\xff\xfb", NULL},
	{"audio/mpeg", true, 0, 2, "\xff\xf3", NULL},
	{"audio/mpeg", true, 0, 2, "\xff\xf2", NULL},
	{"video/webm", true, 0, 4, "\x1a\x45\xdf\xa3", NULL},
	{"application/pdf", false, 0, 5, "%PDF-", NULL},
	{"application/zip", false, 0, 4, "PK\x03\x04", NULL},
};

#define TABLE_COUNT (sizeof(table) / sizeof(table[0]))

/** UTF-8 without control characters except white space and escapes; its end may be cut off. */
static bool is_text(const char *head, size_t len)
{
	struct utf8_state state = {0};
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)head[i];
		if (!c || (c < ' ' && !strchr("\t\n\r\f\b\x1b", c))) {
			return false;
		}
	}
	return utf8_check(&state, head, len);
}

const char *blob_type(const char *head, size_t len)
{
	len = len < BLOB_HEAD_SIZE ? len : BLOB_HEAD_SIZE;
	for (size_t i = 0; i < TABLE_COUNT; i++) {
		size_t end = (size_t)table[i].at + table[i].len;
		if (end <= len && memcmp(head + table[i].at, table[i].bytes, table[i].len) == 0 &&
			(!table[i].front ||
				memcmp(head, table[i].front, strlen(table[i].front)) == 0)) {
			return table[i].type;
		}
	}
	return is_text(head, len) ? text_type : "application/octet-stream";
}

bool blob_type_is_safe(const char *mime_type)
{
	for (size_t i = 0; i < TABLE_COUNT; i++) {
		if (strcmp(table[i].type, mime_type) == 0) {
			return table[i].is_safe;
		}
	}
	return strcmp(mime_type, text_type) == 0;
}
