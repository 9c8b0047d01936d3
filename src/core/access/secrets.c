/* Secrets: random texts, their SHA-256 sums, and the files that hold them. */
#include "access_internal.h"

#include "holdfast/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

void sum_text(const char *text, size_t len, char ret_sum[SUM_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char sum[EVP_MAX_MD_SIZE];
	EVP_Digest(text, len, sum, NULL, EVP_sha256(), NULL);
	for (size_t i = 0; i < 32; i++) {
		ret_sum[2 * i] = digits[sum[i] >> 4];
		ret_sum[2 * i + 1] = digits[sum[i] & 15];
	}
	ret_sum[64] = '\0';
}

bool sums_equal(const char a[SUM_SIZE], const char b[SUM_SIZE])
{
	return CRYPTO_memcmp(a, b, SUM_SIZE) == 0;
}

int access_random(char ret_text[LOGIN_HALF_SIZE])
{
	unsigned char bytes[32];
	char text[48];
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
		return -errno;
	}
	EVP_EncodeBlock((unsigned char *)text, bytes, sizeof(bytes));
	for (size_t i = 0; i + 1 < LOGIN_HALF_SIZE; i++) {
		ret_text[i] = text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i];
	}
	ret_text[LOGIN_HALF_SIZE - 1] = '\0';
	OPENSSL_cleanse(bytes, sizeof(bytes));
	OPENSSL_cleanse(text, sizeof(text));
	return 0;
}

int secret_read(const char *path, struct buffer *ret)
{
	buffer_clear(ret);
	return read_plain_path(path, KEY_FILE_MAX, ret);
}

int secret_read_named(const char *path, struct buffer *ret)
{
	int fd = open_named(path, O_RDONLY, 0);
	if (fd < 0) {
		return -errno;
	}
	buffer_clear(ret);
	int r = read_opened(fd, KEY_FILE_MAX, ret);
	close(fd);
	return r;
}

/** Creates a file that does not exist yet, complete or not at all. */
static int make(int dir_fd, const char *name, const char *text, size_t len)
{
	char path[64];
	char half[LOGIN_HALF_SIZE];
	int r = access_random(half);
	if (r < 0) {
		return r;
	}
	/* No name that a process before a crash had, or one in another container. */
	snprintf(path, sizeof(path), "%s.%.16s.new", name, half);
	int fd = open_plain(dir_fd, path, O_CREAT | O_EXCL | O_WRONLY, 0600);
	if (fd < 0) {
		return -errno;
	}
	errno = EIO;
	r = write(fd, text, len) == (ssize_t)len && fsync(fd) == 0 ? 0 : -errno;
	close(fd);
	if (r == 0 && linkat(dir_fd, path, dir_fd, name, 0) < 0) {
		r = -errno;
	}
	unlinkat(dir_fd, path, 0);
	return r == 0 && fsync(dir_fd) < 0 ? -errno : r;
}

int secret_read_or_make(const char *dir, const char *name, struct buffer *ret)
{
	char text[LOGIN_HALF_SIZE];
	struct buffer path = {0};
	buffer_printf(&path, "%s/%s", dir, name);
	int r = secret_read(buffer_cstr(&path), ret);
	if (r == -ENOENT) {
		int dir_fd = open_named(dir, O_RDONLY | O_DIRECTORY, 0);
		r = dir_fd < 0 ? -errno : access_random(text);
		if (r == 0) {
			text[LOGIN_HALF_SIZE - 1] = '\n';
			r = make(dir_fd, name, text, sizeof(text));
		}
		if (dir_fd >= 0) {
			close(dir_fd);
		}
		/* If another process was faster, its file counts. */
		r = r == 0 || r == -EEXIST ? secret_read(buffer_cstr(&path), ret) : r;
	}
	buffer_finish(&path);
	while (r == 0 && ret->len && strchr("\r\n", ret->data[ret->len - 1])) {
		ret->len--;
	}
	return r;
}

int secret_write(const char *dir, const char *name, const char *text, size_t len)
{
	char *path = xprintf("%s.new", name);
	int dir_fd = open_named(dir, O_RDONLY | O_DIRECTORY, 0);
	int fd = dir_fd < 0 ? -1 : open_plain(dir_fd, path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	errno = fd < 0 ? errno : EIO;
	bool is_written = fd >= 0 && write(fd, text, len) == (ssize_t)len &&
			  write(fd, "\n", 1) == 1 && fsync(fd) == 0;
	int r = is_written && renameat(dir_fd, path, dir_fd, name) == 0 && fsync(dir_fd) == 0
			? 0
			: -errno;
	if (fd >= 0) {
		close(fd);
	}
	if (dir_fd >= 0) {
		close(dir_fd);
	}
	free(path);
	return r;
}

int access_share_secret(const char *data_dir, const char *name, const struct shelf *shelf)
{
	struct buffer own = {0};
	struct buffer shared = {0};
	int r = secret_read_or_make(data_dir, name, &own);
	buffer_append(&shared, own.data, own.len);
	r = r < 0 ? r : shelf->secret(shelf->arg, name, &shared);
	bool is_same = own.len == shared.len && CRYPTO_memcmp(own.data, shared.data, own.len) == 0;
	if (r == 0 && !is_same) {
		r = secret_write(data_dir, name, shared.data, shared.len);
	}
	OPENSSL_cleanse(own.data, own.len);
	OPENSSL_cleanse(shared.data, shared.len);
	buffer_finish(&own);
	buffer_finish(&shared);
	return r;
}

int access_read_secret(const char *data_dir, const char *name, struct buffer *ret)
{
	return secret_read_or_make(data_dir, name, ret);
}
