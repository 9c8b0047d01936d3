#!/usr/bin/env python3
"""Turns scripts/*.md into the C tables that script.h declares: embed_scripts.py OUT.c FILE.md...

A script is what the agent says, byte for byte, with marks where it does something:

    <!-- pause 45 -->            waits for the time of 45 tokens
    <think>text</think>          says the text as a thought
    <!-- quote -->               says what was quoted last: the prompt, or a line of a file
    <!-- plan 2 -->              shows the plan with 2 entries completed
    <!-- call NAME pending -->   begins the tool call, with that status
    <!-- update NAME failed -->  gives it another status; text in quotes is its output so far
    <!-- ask NAME -->            asks for permission to do the call; `read` and `write` do it
    <!-- if done, failed -->     what follows is only for these outcomes of ask, read or write ...
    <!-- always -->              ... up to here
    <!-- play SCRIPT -->         plays another script as a paragraph of its own
    <!-- fill -->                says the rest of the file over and over: texts with <!-- or -->
                                 between them, of which the last is a paragraph
    <!-- usage -->, <!-- noise -->, <!-- hang -->, <!-- exit 3 -->, <!-- stop refusal -->,
    <!-- fail "why" -->          see enum demo_step_kind

A mark on a line of its own takes no place in the text: neither its line nor the line break before
it is said. Line breaks at the beginning and at the end of a script are not said either. Between two
lines of +++ at the top is TOML: the script's `plan`, its `call`s (struct demo_call), and the `words`
of a prompt that choose it, if they are not the file's name. The script `hello` answers a prompt
without such a word.
"""

import json
import pathlib
import re
import sys
import tomllib

MARK = re.compile(r"<!-- (.*?) -->|<think>(.*?)</think>", re.S)
WHOLE_LINE = re.compile(r"(?:^|\n)((?:<!-- .*? -->|<think>[^\n]*</think>)+)(?=\n|$)")
STEPS = {  # the mark's name: its step, and the step's fields that its words set
    "pause": ("PAUSE", ["number"]),
    "quote": ("QUOTE", []),
    "plan": ("PLAN", ["number"]),
    "call": ("CALL", ["call", "text"]),
    "update": ("CALL_UPDATE", ["call", "text", "extra"]),
    "ask": ("ASK", ["call"]),
    "read": ("READ", ["call"]),
    "write": ("WRITE", ["call"]),
    "fill": ("FILL", []),
    "usage": ("USAGE", []),
    "noise": ("NOISE", []),
    "hang": ("HANG", []),
    "exit": ("EXIT", ["number"]),
    "stop": ("STOP", ["text"]),
    "fail": ("FAIL", ["text"]),
}


class Script:
    """One file. `parts` are lists of steps, or the names of other scripts to play there."""

    def __init__(self, path):
        self.name = path.stem
        text = path.read_text(encoding="utf-8")
        _, head, body = text.split("+++\n", 2) if text.startswith("+++\n") else ("", "", text)
        self.head = tomllib.loads(head)
        self.words = self.head.get("words", [self.name])
        self.parts = [[]]
        self.fill = []
        self.when = []
        self.read_body(WHOLE_LINE.sub(r"\1", body.strip("\n")))

    def read_body(self, body):
        at = 0
        for mark in MARK.finditer(body):
            self.say("SAY", body[at : mark.start()])
            at = mark.end()
            if mark[2] is not None:
                self.say("THINK", mark[2])
                continue
            name, *words = re.findall(r'"(?:\\.|[^"])*"|[^\s,]+', mark[1])
            self.do(name, [json.loads(w) if w[0] == '"' else w for w in words])
            if name == "fill":
                self.fill = [t.strip("\n") for t in body[at:].split("<!-- or -->")]
                return
        self.say("SAY", body[at:])

    def do(self, name, words):
        if name == "if":
            self.when = words
        elif name == "always":
            self.when = []
        elif name == "play":
            self.parts += [words[0], []]
        else:
            kind, fields = STEPS[name]
            self.add(kind, **dict(zip(fields, words, strict=name != "update")))

    def say(self, kind, text):
        steps = self.parts[-1]
        if not any(step["kind"] == "SAY" for step in steps):
            text = text.lstrip("\n")
        if text:
            self.add(kind, text=text)

    def add(self, kind, **fields):
        self.parts[-1].append({"kind": kind, "when": self.when, **fields})

    def tables(self, scripts):
        """The names of the C tables of steps that it plays."""
        names = []
        for i, part in enumerate(self.parts):
            if isinstance(part, str):
                names += scripts[part].tables(scripts)
            elif part:
                names.append(f"{self.name}_{i}")
        return names


def c_string(text):
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n"}
    characters = (chr(byte) for byte in text.encode())
    return '"%s"' % "".join(
        escapes.get(c) or (c if " " <= c <= "~" else "\\%03o" % ord(c)) for c in characters
    )


def c_fields(fields):
    return "{%s}" % ", ".join(f".{name} = {value}" for name, value in fields.items())


def c_value(value):
    return c_string(value) if isinstance(value, str) else str(value)


def c_step(script, step):
    fields = {"kind": "DEMO_" + step["kind"]}
    if step["when"]:
        fields["when"] = " | ".join("DEMO_" + outcome.upper() for outcome in step["when"])
    for name in ("text", "extra"):
        if name in step:
            fields[name] = c_string(step[name])
    if "number" in step:
        fields["number"] = int(step["number"])
    if "call" in step:
        fields["call"] = f"&{script.name}_call_{step['call']}"
    if step["kind"] == "PLAN":
        fields["plan"] = f"&{script.name}_plan"
    return c_fields(fields)


def c_script(script):
    for name, call in script.head.get("call", {}).items():
        fields = c_fields({key: c_value(value) for key, value in call.items()})
        yield f"static const struct demo_call {script.name}_call_{name} = {fields};"
    if "plan" in script.head:
        entries = ", ".join(map(c_string, script.head["plan"]))
        yield f"static const char *const {script.name}_entries[] = {{{entries}}};"
        count = len(script.head["plan"])
        yield f"static const struct demo_plan {script.name}_plan = {{{script.name}_entries, {count}}};"
    for i, part in enumerate(script.parts):
        if part and not isinstance(part, str):
            yield f"static const struct demo_step {script.name}_{i}[] = {{"
            yield from (f"\t{c_step(script, step)}," for step in part)
            yield "\t{0},\n};"


def c_file(scripts):
    yield "/* Made by embed_scripts.py. */"
    yield '#include "script.h"'
    for script in scripts.values():
        yield from c_script(script)
    yield "const struct demo_word demo_words[] = {"
    for script in scripts.values():
        tables = ", ".join(script.tables(scripts))
        for word in script.words:
            yield f'\t{{"{word}", (const struct demo_step *const[]){{{tables}, NULL}}}},'
    yield "};"
    yield "const size_t demo_word_count = sizeof(demo_words) / sizeof(demo_words[0]);"
    yield f"const struct demo_step *const demo_script_hello = {scripts['hello'].tables(scripts)[0]};"
    texts = [text for script in scripts.values() for text in script.fill]
    yield "const char *const demo_fill_texts[] = {%s};" % ", ".join(map(c_string, texts))
    yield f"const size_t demo_fill_text_count = {len(texts)};"


def main(out, *files):
    scripts = {path.stem: Script(path) for path in map(pathlib.Path, files)}
    pathlib.Path(out).write_text("\n".join(c_file(scripts)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
