#include "tls.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

/* Most plain bytes in a record. */
#define RECORD_MAX ((size_t)16 * 1024)

/*
 * The BIOs of connections have no memory of their own: they read the bytes given to tls_take(), and
 * write to one buffer that all share. So an idle connection costs only what OpenSSL keeps for it.
 */
struct tls_engine {
	BIO_METHOD *method;
	SSL_CTX *keys; /* NULL: none yet */
	const char *in; /* borrowed by tls_take() */
	size_t in_len;
	struct buffer out;
};

/* --- BIO --- */

static int bio_write(BIO *bio, const char *bytes, size_t len, size_t *ret_len)
{
	struct tls_engine *engine = BIO_get_data(bio);
	buffer_append(&engine->out, bytes, len);
	*ret_len = len;
	return 1;
}

static int bio_read(BIO *bio, char *bytes, size_t len, size_t *ret_len)
{
	struct tls_engine *engine = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	if (!engine->in_len) {
		BIO_set_retry_read(bio);
		return 0;
	}
	*ret_len = len < engine->in_len ? len : engine->in_len;
	memcpy(bytes, engine->in, *ret_len);
	engine->in += *ret_len;
	engine->in_len -= *ret_len;
	return 1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
	return command == BIO_CTRL_FLUSH;
}

struct tls_engine *tls_engine_create(void)
{
	struct tls_engine *engine = xcalloc(1, sizeof(*engine));
	engine->method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "holdfast");
	BIO_meth_set_write_ex(engine->method, bio_write);
	BIO_meth_set_read_ex(engine->method, bio_read);
	BIO_meth_set_ctrl(engine->method, bio_ctrl);
	return engine;
}

void tls_engine_destroy(struct tls_engine *engine)
{
	if (engine) {
		SSL_CTX_free(engine->keys);
		BIO_meth_free(engine->method);
		buffer_finish(&engine->out);
		free(engine);
	}
}

void tls_engine_use(struct tls_engine *engine, struct ssl_ctx_st *keys)
{
	SSL_CTX_free(engine->keys);
	engine->keys = keys;
}

struct buffer *tls_out(struct tls_engine *engine)
{
	return &engine->out;
}

/* --- connections --- */

struct ssl_st *tls_create(struct tls_engine *engine)
{
	SSL *tls = SSL_new(engine->keys);
	BIO *bio = BIO_new(engine->method);
	if (!tls || !bio) {
		abort(); /* out of memory */
	}
	BIO_set_data(bio, engine);
	BIO_set_init(bio, 1);
	SSL_set_bio(tls, bio, bio);
	SSL_set_accept_state(tls);
	return tls;
}

void tls_destroy(struct ssl_st *tls)
{
	SSL_free(tls);
}

/** Returns 0 if OpenSSL only needs more input, else the error of tls_take(). */
static int error_of(SSL *tls, int result)
{
	switch (SSL_get_error(tls, result)) {
	case SSL_ERROR_WANT_READ:
		return 0;
	case SSL_ERROR_ZERO_RETURN:
		return -ECONNRESET;
	default:
		break;
	}
	unsigned long error = ERR_peek_error();
	const char *words = ERR_reason_error_string(error);
	bool is_http = ERR_GET_LIB(error) == ERR_LIB_SSL &&
		       (ERR_GET_REASON(error) == SSL_R_HTTP_REQUEST ||
			       ERR_GET_REASON(error) == SSL_R_HTTPS_PROXY_REQUEST);
	diag(DIAG_DEBUG, "TLS with a client ends: %s", words ? words : "it broke off");
	ERR_clear_error();
	return is_http ? -EPROTONOSUPPORT : -EPROTO;
}

int tls_take(struct tls_engine *engine, struct ssl_st *tls, const char *bytes, size_t len,
	struct buffer *plain)
{
	size_t n;
	int result;
	engine->in = bytes;
	engine->in_len = len;
	ERR_clear_error();
	do {
		buffer_reserve(plain, RECORD_MAX);
		result = SSL_read_ex(tls, plain->data + plain->len, RECORD_MAX, &n);
		plain->len += result > 0 ? n : 0;
	} while (result > 0);
	int error = error_of(tls, result);
	engine->in_len = 0;
	return error;
}

int tls_write(struct ssl_st *tls, const void *bytes, size_t len)
{
	size_t n;
	ERR_clear_error();
	if (!SSL_is_init_finished(tls)) {
		return -EPROTO;
	}
	int result = len ? SSL_write_ex(tls, bytes, len, &n) : 1;
	if (result <= 0) {
		error_of(tls, result);
		return -EPROTO;
	}
	return 0;
}

void tls_end(struct ssl_st *tls)
{
	if (SSL_is_init_finished(tls) && !(SSL_get_shutdown(tls) & SSL_SENT_SHUTDOWN)) {
		SSL_shutdown(tls);
		ERR_clear_error();
	}
}
