/* Runs a target once over every file of the folders it is given: the seeds as a plain test. */
#include "fuzz.h"

#include "holdfast/buffer.h"

#include <dirent.h>

static void run_file(const char *path)
{
	FILE *file = fopen(path, "re");
	struct buffer bytes = {0};
	size_t got = file ? 1 : 0;
	fuzz_check(file != NULL, "a seed can be read");
	while (got) {
		buffer_reserve(&bytes, 4096);
		got = fread(bytes.data + bytes.len, 1, 4096, file);
		bytes.len += got;
	}
	fclose(file);
	/* A copy of its own, so that a read past its end is seen by the address sanitizer. */
	uint8_t *copy = xmalloc(bytes.len);
	memcpy(copy, bytes.data, bytes.len);
	LLVMFuzzerTestOneInput(copy, bytes.len);
	free(copy);
	buffer_finish(&bytes);
}

static int run_folder(const char *folder)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, NULL, alphasort);
	int files = 0;
	for (int i = 0; i < count; i++) {
		struct buffer path = {0};
		buffer_printf(&path, "%s/%s", folder, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.') {
			/* What runs when a target aborts is the last line of the output. */
			printf("%s\n", buffer_cstr(&path));
			fflush(stdout);
			run_file(buffer_cstr(&path));
			files++;
		}
		buffer_finish(&path);
		free(entries[i]);
	}
	if (count >= 0) {
		free(entries);
	}
	return files;
}

int main(int argc, char **argv)
{
	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	for (int i = 1; i < argc; i++) {
		int files = run_folder(argv[i]);
		printf("%s: %d seeds\n", argv[i], files);
		if (!files) {
			return 1;
		}
	}
	return argc > 1 ? 0 : 1;
}
