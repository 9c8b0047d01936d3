#include "corpus.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

bool file_read(const char *path, struct buffer *out)
{
	FILE *file = fopen(path, "re");
	if (!file) {
		return false;
	}
	size_t n;
	do {
		buffer_reserve(out, 4096);
		n = fread(out->data + out->len, 1, 4096, file);
		out->len += n;
	} while (n);
	fclose(file);
	return true;
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
			file_read(buffer_cstr(&path), &text);
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
	return visited;
}

size_t corpus_each(const char *folder,
	void (*visit)(void *arg, const char *name, const char *text, size_t len), void *arg)
{
	const char *root = getenv("HOLDFAST_CORPUS");
	struct buffer path = {0};
	buffer_printf(
		&path, "%s/%s", root ? root : HOLDFAST_SOURCE_ROOT "/../shared/corpus", folder);
	size_t count = each_file(buffer_cstr(&path), visit, arg);
	if (!count) {
		printf("[  SKIPPED ] no corpus here (HOLDFAST_CORPUS names it)\n");
	}
	buffer_finish(&path);
	return count;
}

size_t golden_each(const char *folder,
	void (*visit)(void *arg, const char *name, const char *text, size_t len), void *arg)
{
	struct buffer path = {0};
	buffer_printf(&path, "%s/proto/golden/%s", HOLDFAST_SOURCE_ROOT, folder);
	size_t count = each_file(buffer_cstr(&path), visit, arg);
	buffer_finish(&path);
	return count;
}
