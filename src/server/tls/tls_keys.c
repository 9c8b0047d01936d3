/* Loads a certificate and its key, and sets the protocols and ciphers of TLS. */
#include "tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* For TLS 1.2: only key exchange with forward secrecy, and authenticated ciphers. */
static const char ciphers[] = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
			      "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
			      "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
/* No finite-field groups: a client could make the server compute with 8192 bits. */
static const char groups[] = "X25519:P-256:P-384";
static const char groups_new[] = "X25519MLKEM768:X25519:P-256:P-384"; /* from OpenSSL 3.5 on */

/** Keeps OpenSSL from asking for a pass phrase at the terminal. */
static int refuse_passphrase(char *buf, int size, int writes, void *arg)
{
	return -1;
}

/** Selects HTTP/1.1 by ALPN; a client that offers only other protocols is refused. */
static int select_protocol(SSL *tls, const unsigned char **ret, unsigned char *ret_len,
	const unsigned char *offered, unsigned len, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";
	unsigned char *chosen;
	int found = SSL_select_next_proto(&chosen, ret_len, ours, sizeof(ours) - 1, offered, len);
	*ret = chosen;
	return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool set_up(SSL_CTX *keys)
{
	/*
	 * No session resumption: with a ticket key, recorded traffic of TLS 1.2 could be decrypted.
	 */
	SSL_CTX_set_options(keys, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					  SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE |
					  SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_session_cache_mode(keys, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(keys, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_default_passwd_cb(keys, refuse_passphrase);
	SSL_CTX_set_alpn_select_cb(keys, select_protocol, NULL);
	return SSL_CTX_set_num_tickets(keys, 0) &&
	       SSL_CTX_set_min_proto_version(keys, TLS1_2_VERSION) &&
	       SSL_CTX_set_cipher_list(keys, ciphers) &&
	       (SSL_CTX_set1_groups_list(keys, groups_new) ||
		       SSL_CTX_set1_groups_list(keys, groups));
}

/** Says what is wrong with a file. */
static char *fault_of(const char *file, const char *what)
{
	const char *words = ERR_reason_error_string(ERR_peek_last_error());
	if (access(file, R_OK) < 0) {
		return xprintf("%s cannot be read: %s", file, strerror(errno));
	}
	return xprintf(
		"%s: %s cannot be used: %s", file, what, words ? words : "OpenSSL refuses it");
}

static char *warning_of(const char *file, const X509 *certificate)
{
	if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
		return xprintf("%s: the certificate has expired: browsers will refuse it", file);
	}
	if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
		return xprintf("%s: the certificate is not valid yet; is the clock right?", file);
	}
	return NULL;
}

struct ssl_ctx_st *tls_keys_load(
	const char *cert_file, const char *key_file, char **ret_warning, char **ret_why)
{
	SSL_CTX *keys = SSL_CTX_new(TLS_server_method());
	*ret_warning = *ret_why = NULL;
	ERR_clear_error();
	if (!keys || !set_up(keys)) {
		*ret_why = xprintf("this OpenSSL cannot speak TLS as it should");
	} else if (SSL_CTX_use_certificate_chain_file(keys, cert_file) != 1) {
		*ret_why = fault_of(cert_file, "the certificate");
	} else if (SSL_CTX_use_PrivateKey_file(keys, key_file, SSL_FILETYPE_PEM) != 1) {
		*ret_why = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH
				   ? xprintf("%s is not the key of the certificate in %s", key_file,
					     cert_file)
				   : fault_of(key_file, "the key (PEM, without a pass phrase)");
	} else if (SSL_CTX_check_private_key(keys) != 1) {
		*ret_why =
			xprintf("%s is not the key of the certificate in %s", key_file, cert_file);
	}
	ERR_clear_error();
	if (*ret_why) {
		SSL_CTX_free(keys);
		return NULL;
	}
	*ret_warning = warning_of(cert_file, SSL_CTX_get0_certificate(keys));
	return keys;
}

void tls_forget_thread(void)
{
	OPENSSL_thread_stop();
}

void tls_keys_drop(struct ssl_ctx_st *keys)
{
	SSL_CTX_free(keys);
}
