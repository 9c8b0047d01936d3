/*
 * Checks that a blob has the bytes that its name is the SHA-256 of. Files that have been checked
 * are remembered by what stat() says of them, so that a file that does not change is read once.
 */
#include "store_internal.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define PIECE_SIZE ((size_t)256 * 1024)
/* Files that are remembered; one that comes to the same place replaces the other. */
#define SEEN_COUNT ((size_t)4096)
/*
 * The clock of a file system ticks at least every 10 ms. A file that changed less than two ticks
 * ago may change once more and keep its times: it is not remembered.
 */
#define FRESH_NS ((int64_t)20000000)
#define NS_PER_S ((int64_t)1000000000)

struct blob_seen {
	dev_t dev;
	ino_t ino;
	off_t size;
	int64_t modified; /* ns since 1970 */
	int64_t changed;
	uint64_t
		name; /* the beginning of what it was compared with: a hard link has another name */
	bool is_good;
};

/* --- comparing --- */

bool blob_file_is_valid(const char *file)
{
	const char *end = file + strspn(file, "0123456789abcdef");
	return end - file == BLOB_NAME_SIZE - 1 &&
	       (!*end || strcmp(end, ".tools") == 0 || strcmp(end, ".thoughts") == 0);
}

void blob_name_of(EVP_MD_CTX *digest, char name[BLOB_NAME_SIZE])
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	EVP_DigestFinal_ex(digest, sum, &len);
	for (unsigned i = 0; i < len; i++) {
		snprintf(name + 2 * (size_t)i, 3, "%02x", sum[i]);
	}
}

static bool has_name(EVP_MD_CTX *digest, const char *file)
{
	char name[BLOB_NAME_SIZE] = "";
	blob_name_of(digest, name);
	return strncmp(file, name, BLOB_NAME_SIZE - 1) == 0;
}

int blob_check_bytes(const char *file, const void *bytes, size_t len)
{
	EVP_MD_CTX *digest = EVP_MD_CTX_new();
	EVP_DigestInit_ex(digest, EVP_sha256(), NULL);
	EVP_DigestUpdate(digest, bytes, len);
	int r = has_name(digest, file) ? 0 : -EBADMSG;
	EVP_MD_CTX_free(digest);
	return r;
}

int blob_check_file(int fd, const char *file)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	if ((uint64_t)st.st_size > BLOB_FILE_MAX) {
		return -EBADMSG;
	}
	EVP_MD_CTX *digest = EVP_MD_CTX_new();
	char *bytes = xmalloc(PIECE_SIZE);
	ssize_t n = 1;
	off_t at = 0;
	EVP_DigestInit_ex(digest, EVP_sha256(), NULL);
	while (n > 0 || (n < 0 && errno == EINTR)) {
		n = disk->pread(fd, bytes, PIECE_SIZE, at);
		EVP_DigestUpdate(digest, bytes, n > 0 ? (size_t)n : 0);
		at += n > 0 ? n : 0;
	}
	int r = n < 0 ? -errno : has_name(digest, file) ? 0 : -EBADMSG;
	free(bytes);
	EVP_MD_CTX_free(digest);
	return r;
}

/* --- files that were checked --- */

static int64_t to_ns(const struct timespec *ts)
{
	return ts->tv_sec * NS_PER_S + ts->tv_nsec;
}

static int describe(int fd, const char *file, struct blob_seen *ret)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	char start[17];
	snprintf(start, sizeof(start), "%.16s", file);
	*ret = (struct blob_seen){.dev = st.st_dev,
		.ino = st.st_ino,
		.size = st.st_size,
		.modified = to_ns(&st.st_mtim),
		.changed = to_ns(&st.st_ctim),
		.name = strtoull(start, NULL, 16)};
	return 0;
}

static bool is_same(const struct blob_seen *a, const struct blob_seen *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->modified == b->modified && a->changed == b->changed && a->name == b->name;
}

static bool is_fresh(const struct blob_seen *file)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return to_ns(&now) - file->changed < FRESH_NS;
}

int blob_check_opened(struct blobs *blobs, int fd, const char *file)
{
	struct blob_seen found;
	struct blob_seen after;
	int r = describe(fd, file, &found);
	if (r < 0) {
		return r;
	}
	struct blob_seen *seen = &blobs->seen[(found.ino ^ found.dev) % SEEN_COUNT];
	uv_mutex_lock(&blobs->names);
	bool is_known = is_same(seen, &found);
	bool is_good = seen->is_good;
	uv_mutex_unlock(&blobs->names);
	if (is_known) {
		return is_good ? 0 : -EBADMSG;
	}
	bool may_change = is_fresh(&found);
	r = blob_check_file(fd, file);
	if ((r == 0 || r == -EBADMSG) && !may_change && describe(fd, file, &after) == 0 &&
		is_same(&found, &after)) {
		found.is_good = r == 0;
		uv_mutex_lock(&blobs->names);
		*seen = found;
		uv_mutex_unlock(&blobs->names);
	}
	return r;
}

struct blob_seen *blob_seen_create(void)
{
	return xcalloc(SEEN_COUNT, sizeof(struct blob_seen));
}
