#!/usr/bin/env python3
"""Streams a markdown file into a Holdfast session, word by word, as an agent would.

Python's standard library only. A line `<!-- tool: TITLE -->` in the file becomes a tool call.

Every event has a key. When a connection breaks nobody knows whether the last request was stored, so
it is simply sent again: what the server has it does not take twice. The same holds for this program
itself: killed and started again with the same --run, it begins at the start of the file, and the
session goes on where it stopped.
"""

import argparse
import http.client
import json
import os
import random
import re
import secrets
import sys
import time
from urllib.parse import quote, urlsplit


class TryAgain(Exception):
    """The server cannot now; later it may."""


class Refused(Exception):
    """The server does not take it; sending the same again would not help."""


class Session:
    def __init__(self, server, session_id):
        parts = urlsplit(server)
        connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self.connection = connect(parts.netloc, timeout=30)
        self.headers = {"Content-Type": "application/x-ndjson"}
        if os.environ.get("HOLDFAST_TOKEN"):
            self.headers["Authorization"] = "Bearer " + os.environ["HOLDFAST_TOKEN"]
        self.path = f"/api/sessions/{quote(session_id, safe='')}/events?create=1"

    def append(self, *events):
        """Returns the acks, one for each event, when the events are on disk."""
        lines = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)
        delay = 0.1
        while True:
            try:
                return self.post(lines.encode())
            except (OSError, http.client.HTTPException, TryAgain) as error:
                print(f"{error or type(error).__name__}; trying again", file=sys.stderr)
                self.connection.close()
                time.sleep(delay * random.uniform(0.5, 1))
                delay = min(2 * delay, 10)

    def post(self, body):
        self.connection.request("POST", self.path, body, self.headers)
        response = self.connection.getresponse()
        answer = response.read().decode()
        if response.status == 429 or response.status >= 500:
            raise TryAgain(f"{response.status} {answer}")
        if response.status != 200:
            raise Refused(f"{response.status} {answer}")
        return json.loads(answer)["acks"]


def events_of(markdown, name, run):
    """The events of a turn that answers with the markdown, in their order."""
    yield {"type": "user_prompt", "data": {"message": f"Show me {name}"}}
    tools = 0
    for line in markdown.splitlines(keepends=True):
        tool = re.fullmatch(r"<!-- tool: (.+) -->\n?", line)
        if tool:
            tools += 1
            call = {"tool_call_id": f"{run}-tool-{tools}"}
            yield {"type": "tool_call", "data": {**call, "title": tool[1], "kind": "other", "status": "in_progress"}}
            yield {"type": "tool_call_update", "data": {**call, "status": "completed"}}
            continue
        for piece in re.findall(r"\S+\s*|\s+", line):
            yield {"type": "agent_message_chunk", "message_id": run, "data": {"text": piece}}
    yield {"type": "turn_end", "data": {"stop_reason": "end_turn"}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("session", help="its id; the session is made if it does not exist")
    parser.add_argument("file", help="markdown")
    parser.add_argument("--server", default="http://127.0.0.1:8080")
    parser.add_argument("--run", default=secrets.token_hex(4), help="a name for this run; the same one again goes on with it")
    parser.add_argument("--pace", type=float, default=20, help="words a second (default 20); 0: as fast as it goes")
    args = parser.parse_args()

    with open(args.file, encoding="utf-8") as file:
        markdown = file.read()
    session = Session(args.server, args.session)
    for number, event in enumerate(events_of(markdown, args.file, args.run)):
        event["key"] = f"{args.run}:{number}"
        ack = session.append(event)[0]
        if args.pace and not ack["duplicate"]:
            time.sleep((20 if event["type"] == "tool_call" else 1) / args.pace)
    print(f"the whole of {args.file} is in session {args.session}; its end has seq {ack['seq']}")


if __name__ == "__main__":
    try:
        main()
    except (OSError, Refused) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
