#include "corpus.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

bool file_read(const char *path, struct buffer *out)
{
	gzFile file = gzopen(path, "re");
	if (!file) {
		return false;
	}
	int n;
	do {
		buffer_reserve(out, 4096);
		n = gzread(file, out->data + out->len, 4096);
		out->len += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	return gzclose(file) == Z_OK && n == 0;
}

/** Ends the program: a test that reads fewer texts than there are would pass without a word. */
static void die(const char *what, const char *path)
{
	fprintf(stderr, "%s: %s\n", path, what);
	abort();
}

/** Cuts the ending of a compressed file off its name. */
static void cut_gz(char *name)
{
	size_t len = strlen(name);
	if (len > 3 && strcmp(name + len - 3, ".gz") == 0) {
		name[len - 3] = '\0';
	}
}

static size_t each_file(const char *folder,
	void (*visit)(void *arg, const char *name, const char *text, size_t len), void *arg)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, NULL, alphasort);
	size_t visited = 0;
	for (int i = 0; i < count; i++) {
		struct buffer path = {0};
		struct buffer text = {0};
		buffer_printf(&path, "%s/%s", folder, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.') {
			if (!file_read(buffer_cstr(&path), &text)) {
				die("cannot be read", buffer_cstr(&path));
			}
			cut_gz(entries[i]->d_name);
			visit(arg, entries[i]->d_name, text.data, text.len);
			visited++;
		}
		buffer_finish(&path);
		buffer_finish(&text);
		free(entries[i]);
	}
	if (count >= 0) {
		free(entries);
	}
	if (!visited) {
		die("no files here", folder);
	}
	return visited;
}

static size_t each_in(const char *root, const char *folder,
	void (*visit)(void *arg, const char *name, const char *text, size_t len), void *arg)
{
	struct buffer path = {0};
	buffer_printf(&path, HOLDFAST_SOURCE_ROOT "/%s/%s", root, folder);
	size_t count = each_file(buffer_cstr(&path), visit, arg);
	buffer_finish(&path);
	return count;
}

size_t corpus_each(const char *folder,
	void (*visit)(void *arg, const char *name, const char *text, size_t len), void *arg)
{
	return each_in("tests/corpus", folder, visit, arg);
}

size_t golden_each(const char *folder,
	void (*visit)(void *arg, const char *name, const char *text, size_t len), void *arg)
{
	return each_in("proto/golden", folder, visit, arg);
}
