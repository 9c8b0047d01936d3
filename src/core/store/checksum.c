#include "checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t journal_checksum(const char *bytes, size_t len)
{
	return XXH3_64bits(bytes, len);
}

uint64_t journal_session_hash(const char *id, size_t id_len, uint64_t epoch)
{
	return XXH3_64bits_withSeed(id, id_len, epoch);
}
