/*
 * Where the paths that an agent names can lead: each way out of its directory, with the kernel's
 * openat2 and without it, also while somebody swaps what lies on the path.
 */
#include "agents/workspace/workspace_internal.h"
#include "holdfast/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define SEEN_ENOUGH 30

/* base/in is the agent's directory; base/out is not. */
struct place {
	uv_loop_t loop;
	char base[64];
	char in[80];
	char out[80];
	char private_dir[PATH_MAX]; /* of the server; "": none */
};

static const char *path_of(const char *dir, const char *name)
{
	static char paths[4][PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 4];
	snprintf(path, PATH_MAX, "%s/%s", dir, name);
	return path;
}

static void put_file(const char *dir, const char *name, const char *text)
{
	FILE *file = fopen(path_of(dir, name), "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void expect_file(const char *dir, const char *name, const char *text)
{
	char found[256] = "";
	FILE *file = fopen(path_of(dir, name), "r");
	assert_non_null(file);
	found[fread(found, 1, sizeof(found) - 1, file)] = '\0';
	fclose(file);
	assert_string_equal(found, text);
}

static void put_link(const struct place *p, const char *target, const char *name)
{
	assert_int_equal(symlink(target, path_of(p->in, name)), 0);
}

static int setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	strcpy(p->base, "/tmp/holdfast-paths-XXXXXX");
	assert_non_null(mkdtemp(p->base));
	snprintf(p->in, sizeof(p->in), "%s/in", p->base);
	snprintf(p->out, sizeof(p->out), "%s/out", p->base);
	assert_int_equal(mkdir(p->in, 0700), 0);
	assert_int_equal(mkdir(p->out, 0700), 0);
	assert_int_equal(mkdir(path_of(p->in, "d"), 0700), 0);
	put_file(p->in, "f", "inside\n");
	put_file(p->in, "d/f", "inside\n");
	put_file(p->out, "f", "secret\n");
	assert_int_equal(uv_loop_init(&p->loop), 0);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct place *p = *state;
	assert_int_equal(uv_loop_close(&p->loop), 0);
	char command[PATH_MAX];
	snprintf(command, sizeof(command), "rm -rf '%s'", p->base);
	assert_int_equal(system(command), 0);
	free(p);
	return 0;
}

/** Does a job as an agent would ask for it; the caller destroys it. */
static struct file_job *do_job(struct place *p, const char *path, const char *content)
{
	json_t *params = json_pack("{s:s, s:s*}", "path", path, "content", content);
	const char *why;
	struct file_job *job = file_job_create(content != NULL, params, &why);
	assert_non_null(job);
	json_decref(params);
	job->root = xstrdup(p->in);
	job->private_dir = p->private_dir[0] ? xstrdup(p->private_dir) : NULL;
	job->file_max = 1000;
	job->names_max = 1;
	file_job_work(job);
	return job;
}

/** Reads, or with `content` writes; the outcome's beginning must be `words`. */
static void expect(struct place *p, const char *name, const char *content, const char *words)
{
	const char *path = name[0] == '/' ? name : path_of(p->in, name);
	struct file_job *job = do_job(p, path, content);
	const char *outcome = job->code == 0 && content ? "written" : buffer_cstr(&job->text);
	if (strncmp(outcome, words, strlen(words)) != 0) {
		fail_msg("%s %s: %s, not %s", content ? "write" : "read", name, outcome, words);
	}
	file_job_destroy(job);
}

static void expect_both(struct place *p, const char *name, const char *words)
{
	expect(p, name, NULL, words);
	expect(p, name, "overwritten", words);
	expect_file(p->out, "f", "secret\n");
}

#define OUT    "the path leads out"
#define BELOW  "only absolute paths below"
#define NO_REG "not a regular file"

static void test_paths_out(void **state)
{
	struct place *p = *state;
	expect_both(p, "../out/f", OUT);
	expect_both(p, "d/../../out/f", OUT);
	expect_both(p, path_of(p->out, "f"), BELOW);
	expect_both(p, "/etc/hostname", BELOW);
	char beside[PATH_MAX];
	snprintf(beside, sizeof(beside), "%s-beside/f", p->in);
	expect_both(p, beside, BELOW);
}

static void test_links_out(void **state)
{
	struct place *p = *state;
	put_link(p, path_of(p->out, "f"), "absolute");
	put_link(p, "../out/f", "relative");
	put_link(p, "../out", "dir");
	put_link(p, "relative", "chain");
	put_link(p, "d/..", "up");
	put_link(p, "/proc/self/cwd", "magic");
	put_link(p, "/dev/null", "null");
	expect_both(p, "absolute", OUT);
	expect_both(p, "relative", OUT);
	expect_both(p, "dir/f", OUT);
	expect_both(p, "chain", OUT);
	expect_both(p, "up/../out/f", OUT);
	expect_both(p, "magic/f", OUT);
	expect_both(p, "null", OUT);
	expect(p, "dir/new", "x", OUT);
	expect(p, "dir/new/deep", "x", OUT);
	assert_int_equal(access(path_of(p->out, "new"), F_OK), -1);
}

static void test_links_in(void **state)
{
	struct place *p = *state;
	put_link(p, "d/f", "file");
	put_link(p, "file", "twice");
	put_link(p, "d", "dir");
	put_link(p, "d/made", "dangling");
	put_link(p, "loop", "loop");
	assert_int_equal(symlink("../f", path_of(p->in, "d/up")), 0);
	expect(p, "file", NULL, "\"inside");
	expect(p, "dir/f", NULL, "\"inside");
	expect(p, "d/../f", NULL, "\"inside");
	expect(p, "twice", "new\n", "written");
	expect_file(p->in, "d/f", "new\n");
	expect(p, "dangling", "made\n", "written");
	expect_file(p->in, "d/made", "made\n");
	expect(p, "d/up", "up\n", "written");
	expect_file(p->in, "f", "up\n");
	struct stat st;
	assert_int_equal(lstat(path_of(p->in, "twice"), &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	expect_both(p, "loop", "Too many levels");
}

static void test_no_regular_file(void **state)
{
	struct place *p = *state;
	assert_int_equal(mkfifo(path_of(p->in, "fifo"), 0600), 0);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", p->in);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	expect_both(p, "fifo", NO_REG);
	expect_both(p, "socket", NO_REG);
	expect_both(p, "d", NO_REG);
	expect(p, "d/.", "x", "not the name of a file");
	expect(p, "d/..", "x", "not the name of a file");
	expect(p, "d/", "x", "not the name of a file");
	/* Only root may make a device. */
	if (mknod(path_of(p->in, "device"), S_IFCHR | 0666, makedev(1, 3)) == 0) {
		expect_both(p, "device", NO_REG);
	}
	close(fd);
}

static void test_hard_links(void **state)
{
	struct place *p = *state;
	assert_int_equal(link(path_of(p->out, "f"), path_of(p->in, "hard")), 0);
	expect_both(p, "hard", "the file has other names");
	assert_int_equal(unlink(path_of(p->out, "f")), 0);
	expect(p, "hard", NULL, "\"secret");
	expect(p, "hard", "new", "written");
}

/* Makes `name` what it should be and a symlink out of the directory, in turns, without a pause. */
struct swapper {
	pthread_t thread;
	char name[96];
	char aside[128];
	bool is_dir;
	atomic_bool stop;
};

static void check(int result)
{
	if (result < 0) {
		abort();
	}
}

static void swap_once(const struct swapper *s)
{
	if (s->is_dir) {
		check(renameat2(AT_FDCWD, s->name, AT_FDCWD, s->aside, RENAME_EXCHANGE));
		return;
	}
	/* A write may take the symlink's place, so each time there is a new one. */
	check(symlink("../out/f", s->aside));
	check(rename(s->aside, s->name));
	int fd = open(s->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	check(fd);
	check(close(fd));
	check(rename(s->aside, s->name));
}

static void *swap(void *arg)
{
	struct swapper *s = arg;
	while (!atomic_load(&s->stop)) {
		swap_once(s);
	}
	return NULL;
}

/** Reads and writes `name` until each way of it has come about often: done, and refused. */
static void expect_no_way_out(struct place *p, const char *name)
{
	unsigned seen[2][2] = {{0}};
	for (unsigned round = 0; seen[0][0] < SEEN_ENOUGH || seen[0][1] < SEEN_ENOUGH ||
				 seen[1][0] < SEEN_ENOUGH || seen[1][1] < SEEN_ENOUGH;
		round++) {
		bool write = round % 2;
		struct file_job *job =
			do_job(p, path_of(p->in, name), write ? "overwritten" : NULL);
		bool refused = job->code != 0;
		seen[write][refused]++;
		const char *text = buffer_cstr(&job->text);
		assert_null(strstr(text, "secret"));
		if (refused && !strstr(text, OUT) && !strstr(text, "Not a directory") &&
			!strstr(text, "Too many levels") && !strstr(text, NO_REG)) {
			fail_msg("%s", text);
		}
		file_job_destroy(job);
	}
	expect_file(p->out, "f", "secret\n");
}

static void run_swapped(struct place *p, const char *name, const char *path)
{
	struct swapper s = {.is_dir = strcmp(name, path) != 0};
	snprintf(s.name, sizeof(s.name), "%s/%s", p->in, name);
	snprintf(s.aside, sizeof(s.aside), "%s-aside", s.name);
	if (s.is_dir) {
		assert_int_equal(symlink("../out", s.aside), 0);
	}
	assert_int_equal(pthread_create(&s.thread, NULL, swap, &s), 0);
	expect_no_way_out(p, path);
	atomic_store(&s.stop, true);
	pthread_join(s.thread, NULL);
}

static void test_swapped_during_the_call(void **state)
{
	struct place *p = *state;
	run_swapped(p, "d", "d/f");
	run_swapped(p, "f", "f");
	/* Nothing but what was there is there. */
	assert_int_equal(rename(path_of(p->out, "f"), path_of(p->base, "f")), 0);
	assert_int_equal(rmdir(p->out), 0);
}

static void expect_steps(struct place *p, int root, const char *path, int error)
{
	int fd = open_by_steps(root, path, O_RDONLY | O_NONBLOCK);
	int err = fd < 0 ? errno : 0;
	if (fd >= 0) {
		close(fd);
	}
	if (err != error) {
		fail_msg("%s: %s", path, strerror(err));
	}
}

static void test_by_steps(void **state)
{
	struct place *p = *state;
	put_link(p, "d", "dir");
	put_link(p, "f", "file");
	int root = open(p->in, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char long_name[NAME_MAX + 2];
	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	expect_steps(p, root, "f", 0);
	expect_steps(p, root, "d//f", 0);
	expect_steps(p, root, "./d/./f", 0);
	expect_steps(p, root, "", 0);
	expect_steps(p, root, "d/", 0);
	expect_steps(p, root, "..", EXDEV);
	expect_steps(p, root, "d/../f", EXDEV);
	expect_steps(p, root, "d/..", EXDEV);
	expect_steps(p, root, "dir/f", ENOTDIR);
	expect_steps(p, root, "file", ELOOP);
	expect_steps(p, root, "f/x", ENOTDIR);
	expect_steps(p, root, "none/x", ENOENT);
	expect_steps(p, root, long_name, ENAMETOOLONG);
	close(root);
}

/** From now on this process has a kernel without openat2; false if that cannot be had. */
static bool forbid_openat2(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = 4, .filter = code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
			&program) != 0) {
		print_message(
			"seccomp: %s: a kernel without openat2 is not tested\n", strerror(errno));
		return false;
	}
	return syscall(SYS_openat2, -1, "", NULL, 0) == -1 && errno == ENOSYS;
}

/* The last one: there is no way back from it. */
static void test_without_openat2(void **state)
{
	struct place *p = *state;
	if (!forbid_openat2()) {
		return;
	}
	put_link(p, path_of(p->out, "f"), "absolute");
	put_link(p, "../out", "dir");
	put_link(p, "d", "inner");
	expect(p, "d/f", NULL, "\"inside");
	expect(p, "d/f", "new\n", "written");
	expect(p, "e/g/f", "new\n", "written");
	expect_file(p->in, "e/g/f", "new\n");
	expect_both(p, "../out/f", OUT);
	expect_both(p, "d/../../out/f", OUT);
	expect(p, "absolute", NULL, NO_REG);
	expect(p, "absolute", "x", OUT);
	expect_both(p, "dir/f", "Not a directory");
	expect_both(p, "inner/f", "Not a directory");
	run_swapped(p, "d", "d/f");
}

#define PATH_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

/** The server's data directory lies below the agent's own, and has its token in it. */
static void the_servers_directory_is_not_for_agents(void **state)
{
	static const char refused[] = "the server's data directory is not for agents";
	struct place *p = *state;
	assert_int_equal(mkdir(path_of(p->in, "data"), 0700), 0);
	assert_int_equal(mkdir(path_of(p->in, "data/workspace"), 0700), 0);
	assert_int_equal(mkdir(path_of(p->in, "database"), 0700), 0);
	put_file(p->in, "data/access-token", "secret\n");
	put_file(p->in, "data/workspace-not", "secret\n");
	put_file(p->in, "data/workspace/f", "inside\n");
	put_file(p->in, "database/f", "inside\n");
	put_link(p, "data/access-token", "token");
	put_link(p, "data", "there");
	put_link(p, "..", "data/workspace/up");
	snprintf(p->private_dir, sizeof(p->private_dir), "%s/data", p->in);
	expect_both(p, "data/access-token", refused);
	expect_both(p, "data/workspace-not", refused);
	expect_both(p, "there/access-token", refused);
	expect_both(p, "data/workspace/up/access-token", refused);
	expect(p, "token", NULL, refused);
	expect(p, "data/new/file", "text", refused);
	assert_int_equal(access(path_of(p->in, "data/new"), F_OK), -1);
	expect(p, "data/workspace/f", NULL, "\"inside");
	expect(p, "data/workspace/new", "text", "written");
	expect(p, "database/f", NULL, "\"inside");
	expect(p, "f", NULL, "\"inside");
	p->private_dir[0] = '\0';
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			the_servers_directory_is_not_for_agents, setup, teardown),
		PATH_TEST(test_paths_out),
		PATH_TEST(test_links_out),
		PATH_TEST(test_links_in),
		PATH_TEST(test_no_regular_file),
		PATH_TEST(test_hard_links),
		PATH_TEST(test_swapped_during_the_call),
		PATH_TEST(test_by_steps),
		PATH_TEST(test_without_openat2),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
