/* Checks the blobs of a session: the name of each must be the hash of its contents. */
#include "check_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_SIZE ((size_t)256 * 1024)

/**
 * Returns whether `file` is 64 hex digits with an optional suffix (proto/store-format.md#blobs).
 */
static bool is_name(const char *file)
{
	const char *end = file + strspn(file, "0123456789abcdef");
	return end - file == BLOB_NAME_SIZE - 1 &&
	       (!*end || strcmp(end, ".tools") == 0 || strcmp(end, ".thoughts") == 0);
}

static void write_sum(EVP_MD_CTX *digest, char name[BLOB_NAME_SIZE])
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	EVP_DigestFinal_ex(digest, sum, &len);
	for (unsigned i = 0; i < len; i++) {
		snprintf(name + 2 * (size_t)i, 3, "%02x", sum[i]);
	}
}

/** Writes the SHA-256 of a file to `name`. Returns 0 or a negative errno. */
static int sum_file(int dir_fd, const char *file, char name[BLOB_NAME_SIZE])
{
	int fd = disk->openat(dir_fd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	EVP_MD_CTX *digest = EVP_MD_CTX_new();
	char *bytes = xmalloc(PIECE_SIZE);
	ssize_t n;
	EVP_DigestInit_ex(digest, EVP_sha256(), NULL);
	while ((n = disk->read(fd, bytes, PIECE_SIZE)) > 0 || (n < 0 && errno == EINTR)) {
		EVP_DigestUpdate(digest, bytes, n > 0 ? (size_t)n : 0);
	}
	int r = n < 0 ? -errno : 0;
	write_sum(digest, name);
	free(bytes);
	EVP_MD_CTX_free(digest);
	close(fd);
	return r;
}

void check_blob_bytes(
	struct check *check, const char *place, const char *file, const void *bytes, size_t len)
{
	char name[BLOB_NAME_SIZE] = "";
	EVP_MD_CTX *digest = EVP_MD_CTX_new();
	EVP_DigestInit_ex(digest, EVP_sha256(), NULL);
	EVP_DigestUpdate(digest, bytes, len);
	write_sum(digest, name);
	EVP_MD_CTX_free(digest);
	if (!is_name(file)) {
		check_problem(
			check, place, "its name is not that of an image or file of a session");
	} else if (strncmp(file, name, BLOB_NAME_SIZE - 1) != 0) {
		check_problem(check, place, "its contents do not match the hash in its name");
	}
	check->counts->blobs++;
}

static void check_blob(struct check *check, const char *id, int dir_fd, const char *file)
{
	char place[320];
	char name[BLOB_NAME_SIZE] = "";
	snprintf(place, sizeof(place), "sessions/%s/blobs/%.80s", id, file);
	if (!is_name(file)) {
		check_problem(
			check, place, "its name is not that of an image or file of a session");
		return;
	}
	int r = sum_file(dir_fd, file, name);
	if (r == -ENOENT && check->files->in_use) {
		return; /* the server has deleted it */
	}
	if (r < 0) {
		check_problem(check, place, "it cannot be read: %s", strerror(-r));
	} else if (strncmp(file, name, BLOB_NAME_SIZE - 1) != 0) {
		check_problem(check, place, "its contents do not match the hash in its name");
	}
	check->counts->blobs++;
}

void check_blobs(struct check *check, const char *id)
{
	char path[160];
	char **names;
	size_t count;
	snprintf(path, sizeof(path), "%s/blobs", id);
	int fd = disk->openat(
		check->files->sessions_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	int r = fd < 0 ? -errno : disk_list(fd, ".", NULL, &names, &count);
	if (r < 0) {
		if (r != -ENOENT) {
			check_problem(check, path, "it cannot be read: %s", strerror(-r));
		}
		if (fd >= 0) {
			close(fd);
		}
		return;
	}
	for (size_t i = 0; i < count; i++) {
		check_blob(check, id, fd, names[i]);
	}
	disk_list_free(names, count);
	close(fd);
}
