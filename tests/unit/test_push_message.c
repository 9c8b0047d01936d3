/* Web Push messages: the example of RFC 8291, and the proof of RFC 8292. */
#include "holdfast/base64url.h"
#include "notify/push/push_message.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define P256DH \
	"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
#define AUTH "BTBZMqHH6r4Tts7J_aSIgg"

static const struct push_target *example_target(struct push_target *ret)
{
	assert_true(push_target_read(P256DH, AUTH, ret));
	return ret;
}

static void rfc_8291(void **state)
{
	static const char text[] = "When I grow up, I want to be a watermelon";
	struct push_target target;
	struct push_seed seed;
	struct buffer body = {0};
	struct buffer shown = {0};
	assert_true(base64url_read(
		"yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw", seed.scalar, sizeof(seed.scalar)));
	assert_true(base64url_read("DGv6ra1nlYgDCS1FRnbzlw", seed.salt, sizeof(seed.salt)));
	assert_int_equal(
		push_encrypt(example_target(&target), &seed, text, strlen(text), &body), 0);
	base64url_append(&shown, body.data, body.len);
	assert_string_equal(buffer_cstr(&shown),
		"DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN");
	buffer_finish(&body);
	buffer_finish(&shown);
}

/** Digits as browsers write them, and as btoa() does. */
static void reads_keys_in_both_alphabets(void **state)
{
	struct push_target target;
	struct push_target other;
	char point[] = P256DH "=";
	char secret[] = AUTH "==";
	for (char *at = point; *at; at++) {
		*at = *at == '-' ? '+' : *at == '_' ? '/' : *at;
	}
	for (char *at = secret; *at; at++) {
		*at = *at == '-' ? '+' : *at == '_' ? '/' : *at;
	}
	assert_true(push_target_read(point, secret, &other));
	example_target(&target);
	assert_memory_equal(target.point, other.point, sizeof(target.point));
	assert_memory_equal(target.secret, other.secret, sizeof(target.secret));
	assert_true(push_target_read(P256DH "=", AUTH "==", &other));
}

static void refuses_what_is_no_key(void **state)
{
	struct push_target target;
	struct push_seed seed = {.scalar = {0}};
	struct buffer body = {0};
	char off_curve[] = P256DH;
	off_curve[80] = off_curve[80] == 'A' ? 'B' : 'A';
	assert_false(push_target_read(off_curve, AUTH, &target));
	assert_false(push_target_read(AUTH, AUTH, &target));
	assert_false(push_target_read(P256DH, P256DH, &target));
	assert_false(push_target_read(P256DH "A", AUTH, &target));
	assert_false(push_target_read(P256DH, "BTBZMqHH6r4Tts7J_aSIg=", &target));
	assert_false(push_target_read("", "", &target));
	assert_false(push_target_read(P256DH, AUTH "=", &target));
	assert_false(push_target_read(P256DH, AUTH "===", &target));
	assert_false(push_target_read(P256DH, "==" AUTH, &target));
	assert_false(push_target_read(P256DH, "====", &target));
	assert_int_equal(push_encrypt(example_target(&target), &seed, "x", 1, &body), -EINVAL);
	memset(seed.scalar, 0xff, sizeof(seed.scalar)); /* beyond the curve's order */
	assert_int_equal(push_encrypt(&target, &seed, "x", 1, &body), -EINVAL);
	seed.scalar[0] = 1;
	char *text = xcalloc(1, PUSH_PLAIN_MAX + 1);
	assert_int_equal(push_encrypt(&target, &seed, text, PUSH_PLAIN_MAX + 1, &body), -EINVAL);
	assert_int_equal(push_encrypt(&target, &seed, text, PUSH_PLAIN_MAX, &body), 0);
	assert_int_equal(body.len, 4096);
	free(text);
	buffer_finish(&body);
}

static void a_key_is_its_text(void **state)
{
	struct push_key *a = push_key_create("one", 3);
	struct push_key *b = push_key_create("one", 3);
	struct push_key *c = push_key_create("two", 3);
	unsigned char point[PUSH_POINT_SIZE];
	assert_string_equal(push_key_public(a), push_key_public(b));
	assert_string_not_equal(push_key_public(a), push_key_public(c));
	assert_true(base64url_read(push_key_public(a), point, sizeof(point)));
	push_key_destroy(a);
	push_key_destroy(b);
	push_key_destroy(c);
	push_key_destroy(NULL);
}

static void base64url(void **state)
{
	unsigned char bytes[4];
	struct buffer text = {0};
	base64url_append(&text, "\xfb\xff\xfe", 3);
	assert_string_equal(buffer_cstr(&text), "-__-");
	buffer_clear(&text);
	base64url_append(&text, "f", 1);
	assert_string_equal(buffer_cstr(&text), "Zg");
	assert_true(base64url_read("Zm9v", bytes, 3));
	assert_memory_equal(bytes, "foo", 3);
	assert_true(base64url_read("Zm8", bytes, 2));
	assert_false(base64url_read("Zm9", bytes, 2)); /* bits that belong to nothing */
	assert_false(base64url_read("Zm9vZ", bytes, 3));
	assert_false(base64url_read("Zm9v", bytes, 2));
	assert_false(base64url_read("Zm9v", bytes, 4));
	assert_false(base64url_read("Zm+v", bytes, 3));
	assert_true(base64url_read("", bytes, 0));
	buffer_finish(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rfc_8291),
		cmocka_unit_test(reads_keys_in_both_alphabets),
		cmocka_unit_test(refuses_what_is_no_key),
		cmocka_unit_test(a_key_is_its_text),
		cmocka_unit_test(base64url),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
