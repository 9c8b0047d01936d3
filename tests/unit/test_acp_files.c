/* fs/read_text_file and fs/write_text_file, asked by an agent, in a directory of their own. */
#include "acp_agent_fixture.h"

#include "agents/workspace/workspace_internal.h"

#include <fcntl.h>
#include <sys/stat.h>

/** Writes the requests with "@" for the agent's directory. */
static void write_file_requests(struct fixture *f, const char *text)
{
	struct buffer whole = {0};
	for (const char *s = text; *s; s++) {
		buffer_append(&whole, *s == '@' ? f->cwd : s, *s == '@' ? strlen(f->cwd) : 1);
	}
	write_requests(f, buffer_cstr(&whole));
	buffer_finish(&whole);
}

static void put_file(struct fixture *f, const char *name, const char *bytes, mode_t mode)
{
	char path[PATH_MAX + 64];
	snprintf(path, sizeof(path), "%s/%s", f->cwd, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
	close(fd);
}

static void expect_file(struct fixture *f, const char *name, const char *bytes, mode_t mode)
{
	char path[PATH_MAX + 64];
	char found[2048] = "";
	struct stat st;
	snprintf(path, sizeof(path), "%s/%s", f->cwd, name);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	found[fread(found, 1, sizeof(found) - 1, file)] = '\0';
	assert_int_equal(fstat(fileno(file), &st), 0);
	fclose(file);
	assert_string_equal(found, bytes);
	assert_int_equal(st.st_mode & 0777, mode);
}

/** Runs a turn of file requests; the directory's name in the log becomes "@". */
static void run_files(struct fixture *f, const char *requests, const char *expected)
{
	write_file_requests(f, requests);
	start(f, "files");
	run_until(f, "turn_end");
	struct buffer log = {0};
	const char *s = buffer_cstr(&f->log);
	for (const char *at = strstr(s, f->cwd); at; at = strstr(s, f->cwd)) {
		buffer_append(&log, s, (size_t)(at - s));
		buffer_append_char(&log, '@');
		s = at + strlen(f->cwd);
	}
	buffer_append_str(&log, s);
	assert_string_equal(buffer_cstr(&log), expected);
	buffer_finish(&log);
}

static void test_files_read(void **state)
{
	struct fixture *f = *state;
	put_file(f, "f", "one\ntwo\nthree", 0600);
	put_file(f, "latin1", "\xe9", 0600);
	char path[PATH_MAX + 16];
	snprintf(path, sizeof(path), "%s/fifo", f->cwd);
	assert_int_equal(mkfifo(path, 0600), 0);
	snprintf(path, sizeof(path), "%s/out", f->cwd);
	assert_int_equal(symlink("/etc/hostname", path), 0);
	snprintf(path, sizeof(path), "%s/in", f->cwd);
	assert_int_equal(symlink("f", path), 0);
	snprintf(path, sizeof(path), "%s/large", f->cwd);
	put_file(f, "large", "", 0600);
	assert_int_equal(truncate(path, 1001), 0);
	run_files(f,
		"{'id':1,'method':'fs/read_text_file','params':{'path':'@/f'}}\n"
		"{'id':2,'method':'fs/read_text_file','params':{'path':'@/"
		"in','line':2,'limit':1}}\n"
		"{'id':3,'method':'fs/read_text_file','params':{'path':'@/"
		"f','line':3,'limit':null}}\n"
		"{'id':4,'method':'fs/read_text_file','params':{'path':'@/f','line':9}}\n"
		"{'id':5,'method':'fs/read_text_file','params':{'path':'@/none'}}\n"
		"{'id':6,'method':'fs/read_text_file','params':{'path':'@/out'}}\n"
		"{'id':7,'method':'fs/read_text_file','params':{'path':'@/../../etc/hostname'}}\n"
		"{'id':8,'method':'fs/read_text_file','params':{'path':'/etc/hostname'}}\n"
		"{'id':9,'method':'fs/read_text_file','params':{'path':'@f'}}\n"
		"{'id':10,'method':'fs/read_text_file','params':{'path':'f'}}\n"
		"{'id':11,'method':'fs/read_text_file','params':{'path':'@/fifo'}}\n"
		"{'id':12,'method':'fs/read_text_file','params':{'path':'@/large'}}\n"
		"{'id':13,'method':'fs/read_text_file','params':{'path':'@/latin1'}}\n"
		"{'id':14,'method':'fs/read_text_file','params':{'path':'@/f','line':-1}}\n"
		"{'id':15,'method':'fs/read_text_file','params':{}}\n",
		"started sh 1 1 s1\n"
		"file_read {\"path\":\"f\",\"size\":13}\n"
		"text {'jsonrpc':'2.0','id':1,'result':{'content':'one\ntwo\nthree'}}\n"
		"file_read {\"path\":\"in\",\"size\":4}\n"
		"text {'jsonrpc':'2.0','id':2,'result':{'content':'two\n'}}\n"
		"file_read {\"path\":\"f\",\"size\":5}\n"
		"text {'jsonrpc':'2.0','id':3,'result':{'content':'three'}}\n"
		"file_read {\"path\":\"f\",\"size\":0}\n"
		"text {'jsonrpc':'2.0','id':4,'result':{'content':''}}\n"
		"text {'jsonrpc':'2.0','id':5,'error':{'code':-32002,'message':'No such file or directory: @/none'}}\n"
		"text {'jsonrpc':'2.0','id':6,'error':{'code':-32602,'message':'the path leads out of the session's directory: @/out'}}\n"
		"text {'jsonrpc':'2.0','id':7,'error':{'code':-32602,'message':'the path leads out of the session's directory: @/../../etc/hostname'}}\n"
		"text {'jsonrpc':'2.0','id':8,'error':{'code':-32602,'message':'only absolute paths below the session's directory may be used: /etc/hostname'}}\n"
		"text {'jsonrpc':'2.0','id':9,'error':{'code':-32602,'message':'only absolute paths below the session's directory may be used: @f'}}\n"
		"text {'jsonrpc':'2.0','id':10,'error':{'code':-32602,'message':'only absolute paths below the session's directory may be used: f'}}\n"
		"text {'jsonrpc':'2.0','id':11,'error':{'code':-32602,'message':'not a regular file: @/fifo'}}\n"
		"text {'jsonrpc':'2.0','id':12,'error':{'code':-32602,'message':'the file is too large: @/large'}}\n"
		"text {'jsonrpc':'2.0','id':13,'error':{'code':-32603,'message':'the file is not UTF-8 text: @/latin1'}}\n"
		"text {'jsonrpc':'2.0','id':14,'error':{'code':-32602,'message':'line and limit must be numbers from 0'}}\n"
		"text {'jsonrpc':'2.0','id':15,'error':{'code':-32602,'message':'path must be a string of fewer than 4096 bytes'}}\n"
		"turn_end end_turn -\n");
}

static void test_files_write(void **state)
{
	struct fixture *f = *state;
	umask(022);
	put_file(f, "script", "old", 0755);
	put_file(f, "target", "kept", 0600);
	char path[PATH_MAX + 16];
	snprintf(path, sizeof(path), "%s/link", f->cwd);
	assert_int_equal(symlink("target", path), 0);
	snprintf(path, sizeof(path), "%s/outside", f->cwd);
	assert_int_equal(symlink("/tmp", path), 0);
	run_files(f,
		"{'id':1,'method':'fs/write_text_file','params':{'path':'@/"
		"new','content':'a\\u00e9'}}\n"
		"{'id':2,'method':'fs/write_text_file','params':{'path':'@/d/e//g/"
		"new','content':'b'}}\n"
		"{'id':3,'method':'fs/write_text_file','params':{'path':'@/"
		"script','content':'new'}}\n"
		"{'id':4,'method':'fs/write_text_file','params':{'path':'@/"
		"link','content':'own'}}\n"
		"{'id':5,'method':'fs/write_text_file','params':{'path':'@/outside/"
		"x','content':'b'}}\n"
		"{'id':6,'method':'fs/write_text_file','params':{'path':'@/../x','content':'b'}}\n"
		"{'id':7,'method':'fs/write_text_file','params':{'path':'@/d','content':'b'}}\n"
		"{'id':8,'method':'fs/write_text_file','params':{'path':'@/d/..','content':'b'}}\n"
		"{'id':9,'method':'fs/write_text_file','params':{'path':'@/target/"
		"x','content':'b'}}\n"
		"{'id':10,'method':'fs/write_text_file','params':{'path':'@/x','content':5}}\n",
		"started sh 1 1 s1\n"
		"file_write {\"created\":true,\"diff\":\"@@ -0,0 +1,1 @@\\n"
		"+a\xc3\xa9\\n"
		"\\\\ No newline at end of file\\n"
		"\",\"path\":\"new\",\"size\":3}\n"
		"text {'jsonrpc':'2.0','id':1,'result':{}}\n"
		"file_write {\"created\":true,\"diff\":\"@@ -0,0 +1,1 @@\\n"
		"+b\\n"
		"\\\\ No newline at end of file\\n"
		"\",\"path\":\"d/e//g/new\",\"size\":1}\n"
		"text {'jsonrpc':'2.0','id':2,'result':{}}\n"
		"file_write {\"diff\":\"@@ -1,1 +1,1 @@\\n"
		"-old\\n"
		"\\\\ No newline at end of file\\n"
		"+new\\n"
		"\\\\ No newline at end of file\\n"
		"\",\"path\":\"script\",\"size\":3}\n"
		"text {'jsonrpc':'2.0','id':3,'result':{}}\n"
		"file_write {\"diff\":\"@@ -1,1 +1,1 @@\\n"
		"-kept\\n"
		"\\\\ No newline at end of file\\n"
		"+own\\n"
		"\\\\ No newline at end of file\\n"
		"\",\"path\":\"link\",\"size\":3}\n"
		"text {'jsonrpc':'2.0','id':4,'result':{}}\n"
		"text {'jsonrpc':'2.0','id':5,'error':{'code':-32602,'message':'the path leads out of the session's directory: @/outside/x'}}\n"
		"text {'jsonrpc':'2.0','id':6,'error':{'code':-32602,'message':'the path leads out of the session's directory: @/../x'}}\n"
		"text {'jsonrpc':'2.0','id':7,'error':{'code':-32602,'message':'not a regular file: @/d'}}\n"
		"text {'jsonrpc':'2.0','id':8,'error':{'code':-32602,'message':'not the name of a file: @/d/..'}}\n"
		"text {'jsonrpc':'2.0','id':9,'error':{'code':-32603,'message':'Not a directory: @/target/x'}}\n"
		"text {'jsonrpc':'2.0','id':10,'error':{'code':-32602,'message':'content must be a string'}}\n"
		"turn_end end_turn -\n");
	expect_file(f, "new", "a\xc3\xa9", 0644);
	expect_file(f, "d/e/g/new", "b", 0644);
	expect_file(f, "script", "new", 0755);
	expect_file(f, "link", "own", 0600);
	expect_file(f, "target", "own", 0600);
}

static void test_file_order(void **state)
{
	struct fixture *f = *state;
	start(f, "file_order");
	run_until(f, "turn_end");
	expect_log(f, "started sh 1 1 s1\n"
		      "file_write {\"created\":true,\"diff\":\"@@ -0,0 +1,1 @@\\n"
		      "+abc\\n"
		      "\\\\ No newline at end of file\\n"
		      "\",\"path\":\"f\",\"size\":3}\n"
		      "file_read {\"path\":\"f\",\"size\":3}\n"
		      "text after\n"
		      "text {'jsonrpc':'2.0','id':2,'result':{'content':'abc'}}\n"
		      "turn_end end_turn -\n");
}

static void test_file_before_exit(void **state)
{
	struct fixture *f = *state;
	start(f, "file_then_exit");
	run_until(f, "stopped");
	expect_log(f, "started sh 1 1 s1\n"
		      "file_write {\"created\":true,\"diff\":\"@@ -0,0 +1,1 @@\\n"
		      "+abc\\n"
		      "\\\\ No newline at end of file\\n"
		      "\",\"path\":\"f\",\"size\":3}\n"
		      "text after\n"
		      "stopped exit exit status 0\n");
}

static void note_sent(void *owner, struct buffer *message)
{
	struct fixture *f = owner;
	buffer_append(&f->log, message->data, message->len);
	buffer_finish(message);
}

static void ignore_event(void *owner, const char *type, const json_t *data)
{
}

static void ignore_done(void *owner)
{
}

static void note_freed(void *owner)
{
	((struct fixture *)owner)->freed = true;
}

/** A process for files that had nothing to do is ended; the next request can come before it is gone. */
static void test_file_while_process_ends(void **state)
{
	struct fixture *f = *state;
	static const struct workspace_ops room = {.send = note_sent,
		.event = ignore_event,
		.file_done = ignore_done,
		.freed = note_freed};
	const struct workspace_config config = {.cwd = f->cwd,
		.session_id = "test",
		.file_max = 1000,
		.file_names_max = 1,
		.file_ms = 60000,
		.commands = {.spawner = f->spawner, .stop_grace_ms = 60000}};
	char path[PATH_MAX + 64];
	put_file(f, "f", "text", 0600);
	snprintf(path, sizeof(path), "%s/f", f->cwd);
	json_t *params = json_pack("{s:s}", "path", path);
	json_t *id = json_integer(1);
	struct workspace *ws = workspace_create(&f->loop, &config, &room, f);
	for (int i = 0; i < 2; i++) {
		buffer_clear(&f->log);
		assert_true(workspace_handle(ws, "fs/read_text_file", id, params));
		while (workspace_is_at_file(ws)) {
			uv_run(&f->loop, UV_RUN_ONCE);
		}
		assert_string_equal(buffer_cstr(&f->log),
			"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":\"text\"}}\n");
		workspace_stop_files(ws);
	}
	workspace_close(ws);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_true(f->freed);
	json_decref(params);
	json_decref(id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		AGENT_TEST(test_files_read),
		AGENT_TEST(test_files_write),
		AGENT_TEST(test_file_order),
		AGENT_TEST(test_file_before_exit),
		AGENT_TEST(test_file_while_process_ends),
	};
	signal(SIGPIPE, SIG_IGN);
	diag_set_level(DIAG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
