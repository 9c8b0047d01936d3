/*
 * The server's certificate and key: reads them at startup, and again when the operator asks for it.
 */
#include "server/http_internal.h"

#include "tls.h"

#include "holdfast/diag.h"

#include <stdlib.h>

/** Reads them on the thread pool. */
struct keys_job {
	uv_work_t work;
	struct server *server; /* NULL: it is gone */
	char *cert;
	char *key;
	struct ssl_ctx_st *keys;
	char *warning;
	char *why;
};

static void free_job(struct keys_job *job)
{
	tls_keys_drop(job->keys);
	free(job->cert);
	free(job->key);
	free(job->warning);
	free(job->why);
	free(job);
}

bool server_load_keys(struct server *server, char **ret_why)
{
	char *warning;
	struct ssl_ctx_st *keys;
	if (!server->tls_cert) {
		return true;
	}
	keys = tls_keys_load(server->tls_cert, server->tls_key, &warning, ret_why);
	if (warning) {
		diag(DIAG_WARN, "%s", warning);
	}
	free(warning);
	if (keys) {
		transport_use_keys(server->transport, keys);
	}
	return keys;
}

static void work(uv_work_t *req)
{
	struct keys_job *job = req->data;
	job->keys = tls_keys_load(job->cert, job->key, &job->warning, &job->why);
	tls_forget_thread(); /* the pool's threads may outlive OpenSSL's own clean-up */
}

static void work_done(uv_work_t *req, int status)
{
	struct keys_job *job = req->data;
	struct server *server = job->server;
	if (!server) {
		free_job(job);
		return;
	}
	server->keys_job = NULL;
	if (job->warning) {
		diag(DIAG_WARN, "%s", job->warning);
	}
	if (job->keys) {
		transport_use_keys(server->transport, job->keys);
		job->keys = NULL;
		diag(DIAG_INFO, "new connections now use the certificate in %s", job->cert);
	} else {
		diag(DIAG_ERROR, "the old certificate stays in use: %s", job->why);
	}
	free_job(job);
	if (server->reloads_again) {
		server_reload_keys(server);
	}
}

void server_reload_keys(struct server *server)
{
	/* A reload that is in progress may have read the files before they changed. */
	server->reloads_again = server->keys_job != NULL;
	if (server->keys_job || !server->tls_cert) {
		return;
	}
	struct keys_job *job = xcalloc(1, sizeof(*job));
	job->work.data = job;
	job->server = server;
	job->cert = xstrdup(server->tls_cert);
	job->key = xstrdup(server->tls_key);
	server->keys_job = job;
	uv_queue_work(server->loop, &job->work, work, work_done);
}

void server_forget_keys(struct server *server)
{
	if (server->keys_job) {
		server->keys_job->server = NULL;
		server->keys_job = NULL;
	}
}
