#include "stream_text.h"

#include <stdbool.h>
#include <string.h>

#define COUNT(array)   (sizeof(array) / sizeof((array)[0]))
#define PICK(m, array) ((array)[below(m, COUNT(array))])

struct mix {
	uint64_t state;
	struct buffer *out;
};

static uint32_t below(struct mix *m, size_t count)
{
	m->state ^= m->state << 13;
	m->state ^= m->state >> 7;
	m->state ^= m->state << 17;
	return (uint32_t)((m->state >> 20) % count);
}

static void put(struct mix *m, const char *text)
{
	buffer_append_str(m->out, text);
}

static const char *const sentences[] = {
	"The reader stops one byte short, so the **last record** is dropped whenever the file ends without a newline. ",
	"I looked at `src/parser/lexer.c` first, because that is where the offsets are counted. ",
	"This is the same race we saw last week: the timer fires *after* the socket has been closed. ",
	"Nothing else calls it. ",
	"All 214 tests pass, and the two that were flaky ran a hundred times without a failure. ",
	"You can find the details in the [release notes](https://example.org/notes/2.4#breaking). ",
	"The cache is keyed by path only; a file that is replaced within the same second (and has the same size) is taken for the old one. ",
	"I kept the old name as an alias, so that callers outside this repository do not break. ",
	"Here is what happens, step by step. ",
	"It's worth noting that `read()` may return less than was asked for, which the loop above does not expect. ",
	"**Important:** the migration is not reversible once the old column has been dropped. ",
	"If you would rather keep the synchronous version, set `\"mode\": \"sync\"` in the config. ",
	"Die Änderung betrifft auch die Größe der Tabelle — siehe unten. ",
	"With that in place the request takes about 40 ms instead of 1.2 s on my machine. ",
	"Let me know if you want the *second* half of this in a separate commit. ",
	"The `--watch` flag, the `HOLDFAST_DIR` variable and the old `_internal_state` field are gone. ",
	"Two things stand out: the lock is held for the whole loop, and the list is copied twice. ",
	"Done. ",
	"It does **not** handle symbolic links, nor files larger than 2 GiB on 32-bit systems. ",
	"See https://example.org/issues/1234 for the discussion. ",
	"The error comes from a missing `await`, so the promise is never waited for and its failure is swallowed ~~silently~~ by the handler. ",
	"I'd suggest that we first write a test which fails, then change the code, and only then touch the documentation. ",
};

static const char *const titles[] = {"Summary", "What I changed", "Root cause", "Next steps",
	"How to run the tests", "Why `fsync` is not enough", "Notes on the API",
	"Before and after"};

static const char *const items[] = {
	"Add a test for the empty file\n",
	"**Parser:** counts bytes, not characters, so that offsets fit the file\n",
	"`src/net/server.c` — close the socket before the timer is stopped\n",
	"Removed the unused import\n",
	"The new option `--max-depth` is documented in the README and has a default of 100\n",
	"A file that ends in the middle of a record is reported with its name and the position at which reading stopped, instead of being skipped\n",
	"Rename `get()` to `find()` (it may return *nothing*)\n",
	"Run `npm run lint -- --fix`\n",
	"Check that [the guide](docs/guide.md) still says what the code does\n",
};

static const char *const code[][12] = {
	{"c", "static int read_record(struct reader *r, struct record *ret)\n", "{\n",
		"\tssize_t n = read(r->fd, r->buf + r->len, sizeof(r->buf) - r->len);\n",
		"\tif (n < 0) {\n", "\t\treturn -errno;\n", "\t}\n",
		"\t/* A short read is no error: the rest comes with the next one. */\n",
		"\tr->len += (size_t)n;\n", "\treturn parse(r, ret);\n", "}\n", "\n"},
	{"python", "import asyncio\n", "\n", "\n", "class Pool:\n",
		"    def __init__(self, size: int = 8) -> None:\n",
		"        self._free: asyncio.Queue[Connection] = asyncio.Queue(size)\n", "\n",
		"    async def run(self, query: str, *args: object) -> list[Row]:\n",
		"        async with self.connection() as conn:\n",
		"            return await conn.fetch(query, *args)\n", "\n"},
	{"ts", "export async function load(url: string, signal?: AbortSignal): Promise<Page> {\n",
		"  const response = await fetch(url, { signal, headers: { accept: 'application/json' } });\n",
		"  if (!response.ok) {\n",
		"    throw new HttpError(response.status, `${url}: ${response.statusText}`);\n",
		"  }\n", "  const body = await response.json();\n", "  return {\n",
		"    items: body.items.map((item) => toItem(item)),\n",
		"    next: body.next ?? null,\n", "  };\n", "}\n"},
	{"bash", "set -euo pipefail\n", "for file in src/*.c; do\n",
		"  clang-format -i \"$file\" || exit 1\n", "done\n",
		"git diff --stat | tail -n 1\n", "meson test -C build --print-errorlogs\n", "\n",
		"# The server needs a moment.\n", "curl -fsS http://localhost:8080/health\n",
		"echo \"done\"\n", "\n"},
	{"diff", "--- a/src/reader.c\n", "+++ b/src/reader.c\n", "@@ -41,7 +41,7 @@\n",
		" \tsize_t left = r->len;\n", "-\twhile (left > 1) {\n", "+\twhile (left > 0) {\n",
		" \t\tsize_t used = take(r, left);\n", " \t\tleft -= used;\n", " \t}\n", " \n",
		" \treturn 0;\n"},
};

static const char *const rows[] = {
	"| `reader.c` | 41 | off by one | fixed |\n",
	"| `server.c` | 210 | socket closed too late | fixed |\n",
	"| `timer.c` | 77 | race with *close* | **open** |\n",
	"| `cache/key.c` | 12 | same size, same second | needs a decision |\n",
	"| `README.md` | – | says `--depth`, means `--max-depth` | fixed |\n",
};

static void put_sentences(struct mix *m, size_t least, size_t spread)
{
	for (size_t n = least + below(m, spread); n; n--) {
		put(m, PICK(m, sentences));
	}
	m->out->len--; /* the last blank */
	put(m, "\n");
}

/* Most agents write a paragraph as one line; some wrap theirs. */
static void put_paragraph(struct mix *m)
{
	size_t start = m->out->len;
	put_sentences(m, 1, 5);
	if (below(m, 5)) {
		return;
	}
	for (size_t at = start, column = 0; at + 1 < m->out->len; at++, column++) {
		if (m->out->data[at] == ' ' && column > 70) {
			m->out->data[at] = '\n';
			column = 0;
		}
	}
}

static void put_list(struct mix *m)
{
	size_t count = 3 + below(m, 5);
	bool ordered = below(m, 3) == 0;
	bool loose = below(m, 6) == 0;
	for (size_t i = 1; i <= count; i++) {
		if (ordered) {
			buffer_append_u64(m->out, i);
		}
		put(m, ordered ? ". " : "- ");
		put(m, PICK(m, items));
		if (below(m, 8) == 0) {
			put(m, ordered ? "   - " : "  - ");
			put(m, PICK(m, items));
		}
		put(m, loose && i < count ? "\n" : "");
	}
}

static void put_fence(struct mix *m)
{
	const char *const *lines = PICK(m, code);
	put(m, "```");
	put(m, lines[0]);
	put(m, "\n");
	for (size_t times = 1 + below(m, 3); times; times--) {
		for (size_t i = 1; i < COUNT(code[0]); i++) {
			put(m, lines[i]);
		}
	}
	put(m, "```\n");
}

static void put_table(struct mix *m)
{
	put(m, "| file | line | what | state |\n|------|-----:|------|:-----:|\n");
	for (size_t count = 2 + below(m, 6); count; count--) {
		put(m, PICK(m, rows));
	}
}

static void put_heading(struct mix *m)
{
	put(m, below(m, 2) ? "## " : "### ");
	put(m, PICK(m, titles));
	put(m, "\n");
}

static void put_quote(struct mix *m)
{
	put(m, "> ");
	put_sentences(m, 1, 2);
	put(m, "> ");
	put_sentences(m, 1, 2);
}

/* Of a hundred blocks, 50 are paragraphs, 18 lists, 12 fences, 12 headings, 4 tables, 3 quotes. */
static void put_block(struct mix *m)
{
	uint32_t kind = below(m, 100);
	if (kind < 50) {
		put_paragraph(m);
	} else if (kind < 68) {
		put_list(m);
	} else if (kind < 80) {
		put_fence(m);
	} else if (kind < 92) {
		put_heading(m);
	} else if (kind < 96) {
		put_table(m);
	} else if (kind < 99) {
		put_quote(m);
	} else {
		put(m, "---\n");
	}
	put(m, "\n");
}

void ordinary_text(struct buffer *out, uint64_t seed, size_t size)
{
	struct mix m = {.state = seed, .out = out};
	while (out->len < size) {
		put_block(&m);
	}
}
