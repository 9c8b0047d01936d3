/*
 * TLS as strangers speak it (src/server/tls/tls.c). The first number of the plan says what the text is: bytes as they come from the wire, or
 * (odd) what an honest client sends behind its handshake, cut into records and pieces, with a byte spoiled on the way. Nobody gets
 * through without a handshake, and what comes through is what was sent, up to what was spoiled.
 */
#include "fuzz.h"

#include "server/tls/tls.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <unistd.h>

/* More turns than any handshake takes. */
#define TURNS 8
/* One record at most, and then the next one. */
#define RECORD_MAX 2000

static struct tls_engine *the_engine;
static SSL_CTX *the_client;

/** A certificate that has signed itself, and its key, in one file. */
static void write_keys(const char *path)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	FILE *file = fopen(path, "w");
	fuzz_check(key && cert && file, "there are a key, a certificate and a file");
	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 86400L * 3650);
	X509_set_pubkey(cert, key);
	fuzz_check(X509_sign(cert, key, EVP_sha256()) > 0, "it is signed");
	fuzz_check(PEM_write_X509(file, cert) == 1, "it is written");
	fuzz_check(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1, "and its key");
	fclose(file);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static void make_engine(void)
{
	char path[] = "/dev/shm/holdfast-fuzz-XXXXXX";
	char *warning = NULL;
	char *why = NULL;
	diag_set_level(DIAG_SILENT);
	fuzz_check(close(mkstemp(path)) == 0, "there is a file");
	write_keys(path);
	struct ssl_ctx_st *keys = tls_keys_load(path, path, &warning, &why);
	unlink(path);
	fuzz_check(keys && !warning, "the keys can be used");
	the_engine = tls_engine_create();
	tls_engine_use(the_engine, keys);
	the_client = SSL_CTX_new(TLS_client_method());
}

/** Gives the server a piece of its own size, so that nothing behind it can be read. */
static int take(struct ssl_st *tls, const char *bytes, size_t len, struct buffer *plain)
{
	char *piece = xmalloc(len + !len);
	memcpy(piece, bytes, len);
	int r = tls_take(the_engine, tls, piece, len, plain);
	free(piece);
	return r;
}

static int take_in_pieces(struct fuzz_input *in, struct ssl_st *tls, const char *bytes, size_t len,
	struct buffer *plain)
{
	int r = 0;
	while (len && r == 0) {
		size_t n = fuzz_take_up_to(in, len);
		n = n ? n : len;
		r = take(tls, bytes, n, plain);
		buffer_clear(tls_out(the_engine));
		bytes += n;
		len -= n;
	}
	return r;
}

static void try_bytes(struct fuzz_input *in, struct ssl_st *tls)
{
	struct buffer plain = {0};
	take_in_pieces(in, tls, in->text, in->len, &plain);
	fuzz_check(plain.len == 0, "nothing comes through without a handshake");
	fuzz_check(tls_write(tls, "x", 1) == -EPROTO, "and nothing goes out");
	buffer_finish(&plain);
}

/** What the client has written so far. */
static void drain(SSL *client, struct buffer *wire)
{
	char *bytes;
	long len = BIO_get_mem_data(SSL_get_wbio(client), &bytes);
	buffer_append(wire, bytes, (size_t)len);
	BIO_reset(SSL_get_wbio(client));
}

static void shake_hands(SSL *client, struct ssl_st *tls)
{
	struct buffer plain = {0};
	struct buffer wire = {0};
	struct buffer *out = tls_out(the_engine);
	for (int turn = 0; turn < TURNS; turn++) {
		SSL_do_handshake(client);
		drain(client, &wire);
		fuzz_check(take(tls, wire.data ? wire.data : "", wire.len, &plain) == 0,
			"an honest client is not refused");
		BIO_write(SSL_get_rbio(client), out->data ? out->data : "", (int)out->len);
		buffer_clear(out);
		buffer_clear(&wire);
	}
	fuzz_check(SSL_is_init_finished(client) && !plain.len, "the handshake is done");
	buffer_finish(&wire);
	buffer_finish(&plain);
}

static void write_text(struct fuzz_input *in, SSL *client, struct buffer *wire)
{
	size_t written;
	for (size_t at = 0; at < in->len; at += written) {
		size_t left = in->len - at < RECORD_MAX ? in->len - at : RECORD_MAX;
		size_t n = fuzz_take_up_to(in, left);
		int r = SSL_write_ex(client, in->text + at, n ? n : left, &written);
		fuzz_check(r == 1, "the client can write");
		drain(client, wire);
	}
}

static void try_client(struct fuzz_input *in, struct ssl_st *tls, bool is_old)
{
	struct buffer plain = {0};
	struct buffer wire = {0};
	SSL *client = SSL_new(the_client);
	SSL_set_bio(client, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	SSL_set_connect_state(client);
	SSL_set_max_proto_version(client, is_old ? TLS1_2_VERSION : TLS1_3_VERSION);
	shake_hands(client, tls);
	unsigned spoil = fuzz_take(in); /* these bits of a byte change */
	write_text(in, client, &wire);
	if (wire.len && spoil) {
		wire.data[fuzz_take_up_to(in, wire.len - 1)] ^= (char)spoil;
	}
	int r = take_in_pieces(in, tls, wire.data ? wire.data : "", wire.len, &plain);
	fuzz_check(plain.len <= in->len &&
			   (!plain.len || memcmp(plain.data, in->text, plain.len) == 0),
		"what comes is what was sent");
	if (wire.len && spoil) {
		fuzz_check(plain.len < in->len, "what was spoiled does not come through");
	} else {
		fuzz_check(r == 0 && plain.len == in->len, "all of it comes through");
	}
	SSL_free(client);
	buffer_finish(&wire);
	buffer_finish(&plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_split(data, size);
	if (!the_engine) {
		make_engine();
	}
	struct ssl_st *tls = tls_create(the_engine);
	unsigned kind = fuzz_take(&in);
	if (kind & 1) {
		try_client(&in, tls, kind & 2);
	} else {
		try_bytes(&in, tls);
	}
	tls_end(tls);
	tls_destroy(tls);
	buffer_clear(tls_out(the_engine));
	return 0;
}
