"""Reads server-sent events with a client of other people's, as its documentation shows, and prints each line as soon as the client delivers it.

usage: sse_clients.py CLIENT URL TOKEN ENCODING
"""

import asyncio
import sys

client, url, token, encoding = sys.argv[1:]
headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {token}", "Accept-Encoding": encoding}


def say(line):
    print(line if isinstance(line, str) else line.decode(), flush=True)


def lines_of(pieces):
    """The lines of a stream that comes in pieces."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines


def by_requests():
    import requests

    with requests.get(url, headers=headers, stream=True, timeout=60) as answer:
        yield from answer.iter_lines()


def by_requests_pieces():
    """As sseclient-py reads: it iterates over the answer itself."""
    import requests

    with requests.get(url, headers=headers, stream=True, timeout=60) as answer:
        yield from lines_of(answer)


def by_sseclient():
    """sseclient-py, which is not in Debian."""
    import requests
    import sseclient

    with requests.get(url, headers=headers, stream=True, timeout=60) as answer:
        for event in sseclient.SSEClient(answer).events():
            yield event.data


def by_urllib3():
    import urllib3

    answer = urllib3.PoolManager().request("GET", url, headers=headers, preload_content=False, timeout=60)
    yield from lines_of(answer.stream(1024, decode_content=True))


def by_httpx():
    import httpx

    with httpx.stream("GET", url, headers=headers, timeout=60) as answer:
        yield from answer.iter_lines()


async def by_aiohttp():
    import aiohttp

    async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
        async for line in answer.content:
            say(line)


if client == "aiohttp":
    asyncio.run(by_aiohttp())
else:
    for each in {"requests": by_requests, "requests in pieces": by_requests_pieces, "sseclient-py": by_sseclient, "urllib3": by_urllib3, "httpx": by_httpx}[client]():
        say(each)
