/* JSON from producers: read without a tree, beside jansson. */
#include "fuzz.h"
#include "json_compare.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *wrong = json_compare((const char *)data, size);
	fuzz_check(!wrong, wrong ? wrong : "");
	return 0;
}
