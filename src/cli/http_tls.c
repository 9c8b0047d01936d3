#include "http_tls.h"

#include "holdfast/address.h"
#include "holdfast/buffer.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct tls_client {
	SSL_CTX *settings;
	SSL *tls;
};

/** Requires that the certificate is valid for `host`, a name or an IP address. */
static bool expect_host(SSL *tls, const char *host)
{
	struct address address;
	if (address_parse(host, strlen(host), &address)) {
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host) == 1;
	}
	return SSL_set_tlsext_host_name(tls, host) == 1 && SSL_set1_host(tls, host) == 1;
}

static char *fault_of(SSL *tls, const char *host)
{
	long verdict = SSL_get_verify_result(tls);
	const char *words = ERR_reason_error_string(ERR_peek_last_error());
	if (verdict != X509_V_OK) {
		return xprintf(
			"the certificate of %s is not trusted: %s (SSL_CERT_FILE names certificates to trust)",
			host, X509_verify_cert_error_string(verdict));
	}
	return xprintf("no TLS with %s: %s", host, words ? words : "the connection broke off");
}

struct tls_client *tls_client_create(int fd, const char *host, bool is_trusted, char **ret_why)
{
	struct tls_client *client = xcalloc(1, sizeof(*client));
	signal(SIGPIPE, SIG_IGN); /* OpenSSL uses write(), not send() */
	ERR_clear_error();
	client->settings = SSL_CTX_new(TLS_client_method());
	bool is_set = client->settings &&
		      SSL_CTX_set_min_proto_version(client->settings, TLS1_2_VERSION) == 1 &&
		      SSL_CTX_set_default_verify_paths(client->settings) == 1;
	client->tls = is_set ? SSL_new(client->settings) : NULL;
	if (!client->tls || SSL_set_fd(client->tls, fd) != 1 ||
		!(is_trusted || expect_host(client->tls, host))) {
		*ret_why = xprintf("no TLS with %s: OpenSSL cannot be set up", host);
		tls_client_destroy(client);
		return NULL;
	}
	SSL_set_verify(client->tls, is_trusted ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
	if (SSL_connect(client->tls) != 1) {
		*ret_why = fault_of(client->tls, host);
		tls_client_destroy(client);
		return NULL;
	}
	return client;
}

ssize_t tls_client_read(struct tls_client *client, void *bytes, size_t len)
{
	size_t n;
	ERR_clear_error();
	errno = 0;
	int result = SSL_read_ex(client->tls, bytes, len, &n);
	if (result > 0) {
		return (ssize_t)n;
	}
	return SSL_get_error(client->tls, result) == SSL_ERROR_ZERO_RETURN ? 0
	       : errno                                                     ? -errno
									   : -EPROTO;
}

ssize_t tls_client_write(struct tls_client *client, const void *bytes, size_t len)
{
	size_t n;
	ERR_clear_error();
	return SSL_write_ex(client->tls, bytes, len, &n) > 0 ? (ssize_t)n : -EPIPE;
}

void tls_client_destroy(struct tls_client *client)
{
	if (client) {
		SSL_free(client->tls);
		SSL_CTX_free(client->settings);
		free(client);
	}
}
