#include "core/stream/inline_guard.h"
#include "holdfast/markdown_html.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct buffer render_with(const char *context, const char *text, size_t len)
{
	struct buffer html;
	buffer_init(&html);
	markdown_to_html(&(struct markdown){.context = context,
				 .context_len = strlen(context),
				 .text = text,
				 .len = len},
		&html);
	buffer_cstr(&html);
	return html;
}

static struct buffer render(const char *text)
{
	return render_with("", text, strlen(text));
}

static void assert_html(const char *text, const char *expected)
{
	struct buffer html = render(text);
	assert_string_equal(html.data, expected);
	buffer_finish(&html);
}

/*
 * A reader of the HTML that knows only what may come out: fixed tags, fixed attributes with quoted
 * values, addresses without a scheme or with one of three. Returns NULL, or where it met something
 * else.
 */
static const char *find_unsafe(const char *html);

static bool address_is_safe(const char *value, size_t len)
{
	static const char *const schemes[] = {"http:", "https:", "mailto:"};
	for (size_t i = 0; i < COUNT(schemes); i++) {
		size_t scheme_len = strlen(schemes[i]);
		if (len >= scheme_len && strncasecmp(value, schemes[i], scheme_len) == 0) {
			return true;
		}
	}
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)value[i] <= ' ' || value[i] == '\\') {
			return false;
		}
	}
	size_t before_path = strcspn(value, ":/?#\"");
	return value[before_path] != ':' && !(len >= 2 && value[0] == '/' && value[1] == '/');
}

static bool attribute_is_safe(const char *name, size_t name_len, const char *value, size_t len)
{
	static const char *const fixed[] = {"align=left", "align=center", "align=right",
		"type=checkbox", "checked=", "disabled="};
	static const char *const texts[] = {"title", "alt"};
	char pair[64];
	snprintf(pair, sizeof(pair), "%.*s=%.*s", (int)name_len, name, (int)len, value);
	for (size_t i = 0; i < COUNT(fixed); i++) {
		if (strcmp(pair, fixed[i]) == 0) {
			return true;
		}
	}
	for (size_t i = 0; i < COUNT(texts); i++) {
		if (strlen(texts[i]) == name_len && memcmp(name, texts[i], name_len) == 0) {
			return true;
		}
	}
	if (name_len == 5 && memcmp(name, "start", 5) == 0) {
		return strspn(value, "0123456789") == len;
	}
	if (name_len == 5 && memcmp(name, "class", 5) == 0) {
		size_t prefix = strlen("language-");
		return len > prefix && strncmp(value, "language-", prefix) == 0 &&
		       strspn(value + prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					      "0123456789_+#.-") == len - prefix;
	}
	bool address = (name_len == 4 && memcmp(name, "href", 4) == 0) ||
		       (name_len == 3 && memcmp(name, "src", 3) == 0);
	return address && address_is_safe(value, len);
}

static bool tag_is_known(const char *name, size_t len)
{
	static const char *const tags[] = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol",
		"li", "blockquote", "pre", "code", "em", "strong", "del", "a", "img", "br", "hr",
		"table", "thead", "tbody", "tr", "th", "td", "input"};
	for (size_t i = 0; i < COUNT(tags); i++) {
		if (strlen(tags[i]) == len && memcmp(tags[i], name, len) == 0) {
			return true;
		}
	}
	return false;
}

/* Reads the attributes up to and with the tag's `>`; NULL if there is anything else. */
static const char *skip_attributes(const char *at)
{
	while (*at == ' ' && at[1] != '/') {
		const char *name = at + 1;
		const char *equals = name + strspn(name, "abcdefghijklmnopqrstuvwxyz");
		if (equals[0] != '=' || equals[1] != '"') {
			return NULL;
		}
		const char *value = equals + 2;
		const char *quote = value + strcspn(value, "\"<>");
		if (*quote != '"' || !attribute_is_safe(name, (size_t)(equals - name), value,
					     (size_t)(quote - value))) {
			return NULL;
		}
		at = quote + 1;
	}
	at += strncmp(at, " /", 2) == 0 ? 2 : 0;
	return *at == '>' ? at + 1 : NULL;
}

static const char *find_unsafe(const char *html)
{
	const char *at = html;
	while ((at = strpbrk(at, "<>\""))) {
		bool closing = at[1] == '/';
		const char *name = at + 1 + closing;
		size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz123456");
		const char *end =
			closing && name[len] == '>' ? name + len + 1 : skip_attributes(name + len);
		if (*at != '<' || !tag_is_known(name, len) || !end) {
			return at;
		}
		at = end;
	}
	return NULL;
}

static void assert_safe(const char *text, size_t len)
{
	struct buffer html = render_with("", text, len);
	const char *unsafe = find_unsafe(html.data);
	if (unsafe) {
		print_message("%.*s\n  came out as\n%s", (int)len, text, html.data);
	}
	assert_null(unsafe);
	buffer_finish(&html);
}

static void test_safety_reader_knows_danger(void **state)
{
	assert_null(find_unsafe("<p>a &lt; <a href=\"b\" title=\"&lt;\">c</a></p>\n<hr />\n"));
	assert_null(find_unsafe("<a href=\"HTTPS://a:1\"></a><img src=\"a/b:c\" alt=\"\" />"));
	assert_non_null(find_unsafe("<script>"));
	assert_non_null(find_unsafe("<p onclick=\"a\">"));
	assert_non_null(find_unsafe("<a href=\"javascript:a\">"));
	assert_non_null(find_unsafe("<a href=\"//host\">"));
	assert_non_null(find_unsafe("<a href=\"a:b\">"));
	assert_non_null(find_unsafe("<img src=x>"));
	assert_non_null(find_unsafe("<p>a > b</p>"));
	assert_non_null(find_unsafe("<code class=\"language-a b\">"));
	assert_non_null(find_unsafe("<!-- -->"));
}

static void test_constructs(void **state)
{
	static const char *const cases[][2] = {
		{"", ""},
		{"\n\n", ""},
		{"a", "<p>a</p>\n"},
		{"# a\n", "<h1>a</h1>\n"},
		{"a\n---\n", "<h2>a</h2>\n"},
		{"---\n", "<hr />\n"},
		{"a  \nb\nc", "<p>a<br />\nb\nc</p>\n"},
		{"*a* **b** ~~c~~ `d`",
			"<p><em>a</em> <strong>b</strong> <del>c</del> <code>d</code></p>\n"},
		{"- a\n- b\n", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n"},
		{"- a\n\n- b\n", "<ul>\n<li>\n<p>a</p>\n</li>\n<li>\n<p>b</p>\n</li>\n</ul>\n"},
		{"7) a\n", "<ol start=\"7\">\n<li>a</li>\n</ol>\n"},
		{"1. a\n   - b\n", "<ol>\n<li>a\n<ul>\n<li>b</li>\n</ul>\n</li>\n</ol>\n"},
		{"- [ ] a\n- [x] b\n",
			"<ul>\n<li><input type=\"checkbox\" disabled=\"\" /> a</li>\n"
			"<li><input type=\"checkbox\" checked=\"\" disabled=\"\" /> b</li>\n"
			"</ul>\n"},
		{"> a\n", "<blockquote>\n<p>a</p>\n</blockquote>\n"},
		{"    a\n", "<pre><code>a\n</code></pre>\n"},
		{"```c\na < b\n```\n", "<pre><code class=\"language-c\">a &lt; b\n</code></pre>\n"},
		{"```\na", "<pre><code>a\n</code></pre>\n"},
		{"| a | b |\n|:-:|--:|\n| 1 |\n",
			"<table>\n"
			"<thead>\n"
			"<tr>\n"
			"<th align=\"center\">a</th>\n"
			"<th align=\"right\">b</th>\n"
			"</tr>\n</thead>\n<tbody>\n<tr>\n<td align=\"center\">1</td>\n"
			"<td align=\"right\"></td>\n</tr>\n</tbody>\n</table>\n"},
		{"[a](b \"c\")", "<p><a href=\"b\" title=\"c\">a</a></p>\n"},
		{"![*a* b](c.png 'd\"')",
			"<p><img src=\"c.png\" alt=\"a b\" title=\"d&quot;\" /></p>\n"},
		{"<https://a.b>", "<p><a href=\"https://a.b\">https://a.b</a></p>\n"},
		{"https://a.b/c_d", "<p><a href=\"https://a.b/c_d\">https://a.b/c_d</a></p>\n"},
		{"www.a.b", "<p><a href=\"http://www.a.b\">www.a.b</a></p>\n"},
		{"a@b.c", "<p><a href=\"mailto:a@b.c\">a@b.c</a></p>\n"},
		{"[a](b?c='&d=é <)", "<p>[a](b?c='&amp;d=é &lt;)</p>\n"},
		{"[a](b?c='&d=é)", "<p><a href=\"b?c=&#x27;&amp;d=%C3%A9\">a</a></p>\n"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_html(cases[i][0], cases[i][1]);
	}
}

static void test_raw_html_is_text(void **state)
{
	assert_html("a <b>c</b>", "<p>a &lt;b&gt;c&lt;/b&gt;</p>\n");
	assert_html(
		"<div onclick=\"x\">\n\nb", "<p>&lt;div onclick=&quot;x&quot;&gt;</p>\n<p>b</p>\n");
	assert_html("<script>\nalert(1)\n</script>\n",
		"<p>&lt;script&gt;\nalert(1)\n&lt;/script&gt;</p>\n");
	assert_html("- a\n  <!-- b -->\n  c\n",
		"<ul>\n<li>a\n<p>&lt;!-- b --&gt;</p>\nc</li>\n</ul>\n");
	assert_html("| a |\n|-|\n| <i> |\n", "<table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n"
					     "<tbody>\n<tr>\n<td>&lt;i&gt;</td>\n</tr>\n</tbody>\n"
					     "</table>\n");
	assert_html("![<b>](c)", "<p><img src=\"c\" alt=\"&lt;b&gt;\" /></p>\n");
}

static void test_addresses(void **state)
{
	static const char *const kept[] = {"http://a", "HTTPS://a", "mailto:a@b", "a", "a/b:c",
		"/a", "?a:b", "#a:b", "../a", "a%3Ab", "http:a"};
	static const char *const refused[] = {"javascript:alert(1)", "JaVaScRiPt:alert(1)",
		"&#106;avascript:alert(1)", "&#x6A;avascript&colon;alert(1)",
		"javascript&#58;alert(1)", "java&#9;script:alert(1)", "java&Tab;script:alert(1)",
		"java&NewLine;script:alert(1)", "&#1;javascript:alert(1)",
		"&#32;javascript:alert(1)", "javascript\\:alert(1)", "vbscript:a",
		"data:text/html;base64,PHNjcmlwdD4=", "data:image/svg+xml,a",
		"data:image/png;base64,AAAA", "file:///etc/passwd", "ftp://a", "blob:a", "x:y",
		":a", "//host/a", "/\\host", "\\\\\\\\host", "&#47;/host", "foo.c:12",
		"javascript&amp;colon;alert(1):b", "\x7fjavascript:a"};
	char text[128];
	for (size_t i = 0; i < COUNT(kept); i++) {
		snprintf(text, sizeof(text), "[t](%s)", kept[i]);
		struct buffer html = render(text);
		assert_non_null(strstr(html.data, "<a href=\""));
		buffer_finish(&html);
	}
	for (size_t i = 0; i < COUNT(refused); i++) {
		snprintf(text, sizeof(text), "[t *u*](%s)", refused[i]);
		assert_html(text, "<p>t <em>u</em></p>\n");
		snprintf(text, sizeof(text), "[t *u*](<%s> 'title')", refused[i]);
		assert_html(text, "<p>t <em>u</em></p>\n");
		snprintf(text, sizeof(text), "![t *u*](%s)", refused[i]);
		assert_html(text, "<p>t <em>u</em></p>\n");
		snprintf(text, sizeof(text), "[t *u*][r]\n\n[r]: <%s> (title)", refused[i]);
		assert_html(text, "<p>t <em>u</em></p>\n");
	}
	assert_html("<javascript:alert(1)>", "<p>javascript:alert(1)</p>\n");
	assert_html("ftp://a.b xmpp:a@b.c", "<p>ftp://a.b xmpp:a@b.c</p>\n");
	assert_html("[![a](javascript:b)](http://c)", "<p><a href=\"http://c\">a</a></p>\n");
	assert_html(
		"[![a](http://c)](javascript:b)", "<p><img src=\"http://c\" alt=\"a\" /></p>\n");
	assert_html("![a ![b](http://c)](data:d)", "<p>a <img src=\"http://c\" alt=\"b\" /></p>\n");
	assert_html("![a [b](data:c)](http://d)", "<p><img src=\"http://d\" alt=\"a b\" /></p>\n");
}

static void test_languages(void **state)
{
	static const char *const cases[][2] = {{"c++", "c++"}, {"C#", "C#"}, {"f-sharp", "f-sharp"},
		{"{.py}", ".py"}, {"a\"onclick=b", "aonclickb"}, {"js title=\"x\"", "js"},
		{"&quot;&gt;x", "x"}, {"a<b>", "ab"}};
	char text[128];
	char expected[128];
	for (size_t i = 0; i < COUNT(cases); i++) {
		snprintf(text, sizeof(text), "~~~ %s\nx\n~~~\n", cases[i][0]);
		snprintf(expected, sizeof(expected),
			"<pre><code class=\"language-%s\">x\n</code></pre>\n", cases[i][1]);
		assert_html(text, expected);
	}
	assert_html("~~~ \"'<>\nx", "<pre><code>x\n</code></pre>\n");
	struct buffer longest;
	buffer_init(&longest);
	buffer_append_str(&longest, "~~~");
	for (size_t i = 0; i < 1000; i++) {
		buffer_append_char(&longest, 'a');
	}
	struct buffer html = render(buffer_cstr(&longest));
	assert_true(html.len < 200);
	buffer_finish(&html);
	buffer_finish(&longest);
}

static const char *const attacks[] = {
	"<script>alert(1)</script>",
	"<img src=x onerror=alert(1)>",
	"<svg/onload=alert(1)>",
	"<iframe src=\"javascript:alert(1)\">",
	"<a href=\"javascript:alert(1)\">x</a>",
	"<body onload=alert(1)>",
	"<style>@import 'x';</style>",
	"<math><mtext></p><script>",
	"<!--><script>alert(1)</script>-->",
	"<![CDATA[<script>alert(1)</script>]]>",
	"<?php echo 1 ?>",
	"<!DOCTYPE html>",
	"</p><script>",
	"<<script>script>alert(1)",
	"\\<script>",
	"&lt;script&gt;",
	"&#60;script&#62;",
	"`<script>`",
	"    <script>",
	"```\"><script>\n</code><script>\n```",
	"```<img/src/onerror=alert(1)>\nx\n```",
	"[a](b \"c\\\" onclick=\\\"d\")",
	"[a](b '\"onclick=\"d')",
	"[a](b\"onclick=\"d)",
	"[a](<b\"onclick=\"d>)",
	"![a\"onerror=\"b](c)",
	"![\"><script>](c)",
	"![a](b\"onerror=\"c)",
	"<http://a\"onclick=\"b>",
	"http://a.b\"onclick=\"c",
	"www.a.b\"onclick=\"c",
	"\"onclick=\"a@b.c",
	"[a]: b \"c&quot;d\"\n[a]",
	"[<script>](b)",
	"# <script>",
	"> <script>",
	"- <script>\n",
	"- [x]<script>\n",
	"| <script> |\n|-|\n| <img src=x> |\n",
	"| a |\n|:\"-|\n",
	"99999999999. a",
	"1234567890. a",
	"~~<script>~~",
	"**<script>**",
	"[a](javascript:alert(1)//\\)",
	"[a]( javascript:alert(1))",
	"[a](\njavascript:alert(1))",
	"[\\](javascript:alert(1))](b)",
	"[a](http://a&#10;javascript:b)",
	"<javascript:alert(1)>",
	"<data:text/html,a>",
	"[a](JAVASCRIPT&colon;alert&lpar;1&rpar;)",
	"[XSS](jav&#x0A;ascript:alert(1))",
	"[a](\xe2\x80\xa8javascript:b)",
	"[a](\xc2\xa0javascript:b)",
	"[a](\xef\xbb\xbfjavascript:b)",
	"\xef\xbb\xbf<script>",
	"<\xffscript>",
	"[a](\xff://b)",
	"[^1]\n\n[^1]: <script>",
	"<a\nhref=\"javascript:alert(1)\"\n>b</a>",
	"<details open ontoggle=alert(1)>",
	"[a](java&Tab;script&colon;alert(1))",
	"[a](<java\tscript:b>)",
	"[a](\x01javascript:b)",
	"[a](/&Tab;/b)",
	"[a](&bsol;&bsol;b)",
	"[b]: javascript:c\n[a][b]",
	"[b]: <//c> \"\\\" onclick=\\\"d\"\n![a][b]",
	"- [b]: data:c\n\n  ![a][b]",
	"![![a\" onerror=\"b](c)](d)",
	"![`\" onerror=\"b`](c)",
	"~~~x\"onclick=\"a\nb\n~~~",
	"| a |\n|:-\" onclick=\"b|\n",
	"| a |\n|:-:|\n| </td><td onclick=b> |\n",
	"&lt;&#60;&#x3c;&amp;lt;script>",
	"<noscript><p title=\"</noscript><img src=x onerror=a>\">",
	"<svg></p><style><a id=\"</style><img src=x onerror=a>\">",
	"*`<img src=x onerror=a>*`[b](javascript:c)~~<!--~~-->",
	"<div\n\n[a](javascript:b)\n\n<img src=x onerror=c>",
};

static void test_attack_collection(void **state)
{
	for (size_t i = 0; i < COUNT(attacks); i++) {
		assert_safe(attacks[i], strlen(attacks[i]));
	}
	/* And any two of them, one after the other and one inside the other's block. */
	struct buffer text;
	buffer_init(&text);
	for (size_t i = 0; i < COUNT(attacks) * COUNT(attacks); i++) {
		buffer_clear(&text);
		buffer_append_str(&text, attacks[i / COUNT(attacks)]);
		buffer_append_char(&text, i % 2 ? '\n' : ' ');
		buffer_append_str(&text, attacks[i % COUNT(attacks)]);
		assert_safe(text.data, text.len);
	}
	buffer_finish(&text);
}

/*
 * A preview shows a text that is cut anywhere, healed; the rest of a cut block follows a context.
 */
static void test_attacks_cut_anywhere(void **state)
{
	static const char *const contexts[] = {
		"```c\n", "| a |\n|:--|\n", "- a\n", "> ", "<div>\n"};
	struct buffer healed;
	buffer_init(&healed);
	for (size_t i = 0; i < COUNT(attacks); i++) {
		for (size_t len = 0; len <= strlen(attacks[i]); len++) {
			assert_safe(attacks[i], len);
			buffer_clear(&healed);
			inline_guard_heal(attacks[i], len, &healed);
			assert_safe(buffer_cstr(&healed), healed.len);
		}
		for (size_t context = 0; context < COUNT(contexts); context++) {
			struct buffer html =
				render_with(contexts[context], attacks[i], strlen(attacks[i]));
			assert_null(find_unsafe(html.data));
			buffer_finish(&html);
		}
	}
	buffer_finish(&healed);
}

static void test_random_fragments(void **state)
{
	static const char *const fragments[] = {"[", "]", "(", ")", "![", "](", "*", "**", "_",
		"~~", "`", "```", "\n", "\n\n", " ", "    ", "> ", "- ", "1. ", "[x] ", "| ",
		"|-|\n", "# ", "<", ">", "<a ", "href=", "\"", "'", "<!--", "-->", "&", "&quot;",
		"&#60;", "\\", ":", "javascript:", "http://", "www.", "@", "a", ".b", "data:", "//",
		"\xc3\xa9", "\xff", "<div>", "<script>", "[a]: ", "~~~ ", "\t", "\r"};
	uint32_t seed = 1;
	struct buffer text;
	buffer_init(&text);
	for (size_t i = 0; i < 20000; i++) {
		buffer_clear(&text);
		for (size_t part = 0; part < 24; part++) {
			seed = seed * 1664525 + 1013904223;
			buffer_append_str(&text, fragments[(seed >> 8) % COUNT(fragments)]);
		}
		assert_safe(text.data, text.len);
	}
	buffer_finish(&text);
}

static void test_any_bytes(void **state)
{
	struct buffer html = render_with("", "a\0b\xff\xc3", 5);
	assert_string_equal(html.data, "<p>a\xef\xbf\xbd"
				       "b\xef\xbf\xbd\xef\xbf\xbd</p>\n");
	buffer_finish(&html);
	char all[256 * 3];
	for (size_t i = 0; i < sizeof(all); i++) {
		all[i] = (char)(i * 7);
	}
	assert_safe(all, sizeof(all));
}

static void test_start(void **state)
{
	static const struct {
		struct markdown markdown;
		const char *html;
	} cases[] = {
		{{.text = "1. a\n1. b\n", .start = 4},
			"<ol start=\"4\">\n<li>a</li>\n<li>b</li>\n</ol>\n"},
		{{.text = "\n> 1. a\n>    1. b\n", .start = 4},
			"<blockquote>\n<ol start=\"4\">\n<li>a\n<ol>\n<li>b</li>\n</ol>\n</li>\n</ol>\n</blockquote>\n"},
		{{.context = "7. &#32;\n\n", .text = "   1. a\n", .start = 2},
			"<ol start=\"7\">\n<li>\n<p> </p>\n<ol start=\"2\">\n<li>a</li>\n</ol>\n</li>\n</ol>\n"},
		{{.context = "- &#32;\n ", .text = " 1. a\n", .start = 2},
			"<ul>\n<li> \n<ol start=\"2\">\n<li>a</li>\n</ol>\n</li>\n</ul>\n"},
		{{.text = "5. a\n", .start = 1}, "<ol>\n<li>a</li>\n</ol>\n"},
		{{.text = "5. a\n", .start = INT_MAX},
			"<ol start=\"2147483647\">\n<li>a</li>\n</ol>\n"},
		{{.text = "5. a\n", .start = (uint32_t)INT_MAX + 1},
			"<ol start=\"5\">\n<li>a</li>\n</ol>\n"},
		{{.text = "- a\n", .start = 2}, "<ul>\n<li>a</li>\n</ul>\n"},
		{{.text = "a\n", .start = 2}, "<p>a</p>\n"},
		{{.text = "", .start = 2}, ""},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buffer html = {0};
		struct markdown markdown = cases[i].markdown;
		markdown.context = markdown.context ? markdown.context : "";
		markdown.context_len = strlen(markdown.context);
		markdown.len = strlen(markdown.text);
		markdown_to_html(&markdown, &html);
		assert_string_equal(buffer_cstr(&html), cases[i].html);
		buffer_finish(&html);
	}
	(void)state;
}

static void test_context(void **state)
{
	struct buffer html = render_with("```c\n", "b *c*\n```\n", 10);
	assert_string_equal(html.data, "<pre><code class=\"language-c\">b *c*\n</code></pre>\n");
	buffer_finish(&html);
	html = render_with("| a |\n|:--|\n", "| 1 |\n", 6);
	assert_string_equal(html.data, "<table>\n<thead>\n<tr>\n<th align=\"left\">a</th>\n</tr>\n"
				       "</thead>\n<tbody>\n<tr>\n<td align=\"left\">1</td>\n</tr>\n"
				       "</tbody>\n</table>\n");
	buffer_finish(&html);
}

static void test_appends(void **state)
{
	struct buffer html;
	buffer_init(&html);
	buffer_append_str(&html, "{");
	markdown_to_html(&(struct markdown){.text = "a", .len = 1}, &html);
	markdown_to_html(&(struct markdown){.text = "b", .len = 1}, &html);
	assert_string_equal(buffer_cstr(&html), "{<p>a</p>\n<p>b</p>\n");
	buffer_finish(&html);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_safety_reader_knows_danger),
		cmocka_unit_test(test_constructs),
		cmocka_unit_test(test_raw_html_is_text),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_languages),
		cmocka_unit_test(test_attack_collection),
		cmocka_unit_test(test_attacks_cut_anywhere),
		cmocka_unit_test(test_random_fragments),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_context),
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_appends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
