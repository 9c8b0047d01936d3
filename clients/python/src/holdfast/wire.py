"""Frames, errors and sockets: what the observer and the producer share."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any, Awaitable, Callable, Dict, Mapping, Optional, Union
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import websockets
from websockets.exceptions import ConnectionClosed

Event = Mapping[str, Any]
#: A token, or what gives one: it is asked for each connection, and may be async.
Token = Union[None, str, Callable[[], Union[str, Awaitable[str]]]]

#: Its types differ between versions of websockets, and some have none.
connect: Any = getattr(websockets, "connect")

FRAME_MAX = 64 * 1024 * 1024
RETRY_MIN_S = 1.0
RETRY_MAX_S = 30.0
ANSWER_S = 20.0
KEEPALIVE_S = 10.0
#: No retry helps against these.
FINAL_CLOSES = {4401: "unauthorized", 4403: "token_revoked", 4404: "not_found"}
#: The server says that the same may be accepted later.
PASSING = {"storage_failed", "shutting_down", "owner_unreachable", "server_busy", "too_many_connections", "disk_full", "timeout", "permissions_full", "session_damaged"}


class HoldfastError(Exception):
    """A refusal by the server: ``code`` is stable, see "Error codes" in proto/protocol.md."""

    def __init__(self, code: str, message: str, detail: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.detail: Dict[str, Any] = detail or {}


class Lost(Exception):
    """The connection is lost; another one goes on from the same position."""


def socket_url(base: str, path: str, query: Mapping[str, Optional[str]]) -> str:
    parts = urlsplit(base)
    scheme = "wss" if parts.scheme in ("https", "wss") else "ws"
    given = {name: value for name, value in query.items() if value is not None}
    return urlunsplit((scheme, parts.netloc, path, urlencode(given), ""))


def session_path(session_id: str, end: str) -> str:
    return f"/api/sessions/{quote(session_id, safe='')}/{end}"


async def ask_token(token: Token) -> Optional[str]:
    given = token() if callable(token) else token
    if given is None or isinstance(given, str):
        return given
    return await given


class Backoff:
    """How long to wait before the next connection: from 1 s up to 30 s, with jitter."""

    def __init__(self, scale: float) -> None:
        self._scale = scale
        self._attempt = 0

    def proved(self) -> None:
        self._attempt = 0

    async def wait(self) -> None:
        most = min(RETRY_MAX_S, RETRY_MIN_S * 2 ** (self._attempt + 1))
        self._attempt = min(self._attempt + 1, 10)
        await asyncio.sleep(random.uniform(RETRY_MIN_S, most) * self._scale)


class Socket:
    """One WebSocket: says who we are, sends and receives frames, and finds out that it is dead."""

    def __init__(self, connection: Any, scale: float) -> None:
        self._connection = connection
        self._scale = scale

    @classmethod
    async def open(cls, url: str, token: Token, scale: float) -> "Socket":
        try:
            words = await ask_token(token)
            connection = connect(
                url,
                subprotocols=["holdfast.v1"],
                max_size=FRAME_MAX,
                ping_interval=None,
                close_timeout=1,
                open_timeout=None,
            )
            socket = cls(await asyncio.wait_for(connection, ANSWER_S * scale), scale)
        except (OSError, asyncio.TimeoutError, websockets.exceptions.WebSocketException, EOFError) as error:
            raise Lost(str(error)) from error
        if words is not None:
            await socket.send("token", {"token": words})
        return socket

    async def send(self, kind: str, data: Mapping[str, Any]) -> None:
        text = json.dumps({"type": kind, "data": data}, ensure_ascii=False, separators=(",", ":"))
        try:
            await asyncio.wait_for(self._connection.send(text), ANSWER_S * self._scale)
        except (OSError, asyncio.TimeoutError, ConnectionClosed) as error:
            raise self._why(error) from error

    async def receive(self, within_s: float) -> Optional["tuple[str, Dict[str, Any]]"]:
        """The next frame; None if none came in time."""
        try:
            text = await asyncio.wait_for(self._connection.recv(), within_s * self._scale)
        except asyncio.TimeoutError:
            return None
        except (OSError, ConnectionClosed) as error:
            raise self._why(error) from error
        try:
            frame = json.loads(text)
            return str(frame["type"]), dict(frame["data"])
        except (ValueError, TypeError, KeyError) as error:
            raise Lost(f"not a frame: {error}") from error

    async def close(self) -> None:
        # A dead peer takes no part in a closing handshake.
        try:
            await asyncio.wait_for(self._connection.close(), 1)
        except (OSError, asyncio.TimeoutError, ConnectionClosed):
            pass

    def _why(self, error: BaseException) -> Exception:
        code = getattr(self._connection, "close_code", None)
        if isinstance(code, int) and code in FINAL_CLOSES:
            return HoldfastError(FINAL_CLOSES[code], "The server closed the connection for good.")
        return Lost(str(error))


def refusal_of(data: Mapping[str, Any]) -> HoldfastError:
    return HoldfastError(str(data.get("code", "error")), str(data.get("message", "")), dict(data))
