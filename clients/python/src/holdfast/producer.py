"""Feeds a session: each event is on our disk before it is sent, and is sent until the server has it on its own."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Dict, Mapping, Optional, Type, Union

from .outbox import Outbox, OutboxFull
from .wire import ANSWER_S, PASSING, Backoff, HoldfastError, Lost, Socket, Token, refusal_of, session_path, socket_url


class Producer:
    """
    ``async with Producer(...) as producer: await producer.send(type, data)``. The end of the block waits until
    the server has everything; if the process dies before, the next producer with the same outbox sends the rest.
    """

    def __init__(
        self,
        base: str,
        session_id: str,
        *,
        outbox: Union[str, Outbox],
        token: Token = None,
        title: Optional[str] = None,
        time_scale: float = 1.0,
    ) -> None:
        self._url = socket_url(base, session_path(session_id, "produce"), {"create": "1", "title": title})
        self._token = token
        self._outbox = Outbox(outbox) if isinstance(outbox, str) else outbox
        self._scale = time_scale
        self._backoff = Backoff(time_scale)
        self._wake = asyncio.Event()
        self._moved = asyncio.Condition()
        self._failure: Optional[BaseException] = None
        self._task: Optional["asyncio.Task[None]"] = None
        self._ref = 0
        #: How many connections there were.
        self.connects = 0

    async def __aenter__(self) -> "Producer":
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            if kind is None:
                await self.flush()
        finally:
            await self.close()

    async def send(self, kind: str, data: Optional[Mapping[str, Any]] = None, *, message_id: Optional[str] = None) -> None:
        """Adds an input event. It is on our disk when this returns; while the outbox is full this waits for room."""
        event: Dict[str, Any] = {"type": kind, "data": dict(data or {})}
        if message_id is not None:
            event["message_id"] = message_id
        while True:
            self._check()
            try:
                self._outbox.put(event)
                self._wake.set()
                return
            except OutboxFull:
                async with self._moved:
                    await self._moved.wait()

    async def flush(self) -> None:
        """Waits until the server has everything on its disk; raises what it refused."""
        async with self._moved:
            await self._moved.wait_for(lambda: self._failure is not None or len(self._outbox) == 0)
        self._check()

    async def close(self) -> None:
        """Stops sending. What was not confirmed stays in the outbox."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._outbox.close()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _run(self) -> None:
        asked_again = False
        try:
            while True:
                try:
                    self.connects += 1
                    socket = await Socket.open(self._url, self._token, self._scale)
                    try:
                        await self._feed(socket)
                    finally:
                        await socket.close()
                except Lost:
                    asked_again = False
                except HoldfastError as error:
                    if error.code in ("unauthorized", "token_expired") and callable(self._token) and not asked_again:
                        asked_again = True
                    elif error.code not in PASSING:
                        raise
                await self._backoff.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # it is raised where somebody waits
            self._failure = error
            async with self._moved:
                self._moved.notify_all()

    async def _feed(self, socket: Socket) -> None:
        """One connection: sends the oldest events, and more when they are confirmed."""
        await self._expect(socket, "connected", None)
        while True:
            self._wake.clear()
            batch = self._outbox.oldest()
            if not batch:
                await self._rest(socket)
                continue
            self._ref += 1
            await socket.send("append", {"ref": self._ref, "events": [event for _, event in batch]})
            try:
                await self._expect(socket, "appended", self._ref)
            except HoldfastError as error:
                index = error.detail.get("index")
                if error.code not in PASSING and isinstance(index, int) and index < len(batch):
                    # It would be refused for ever; what comes after it would never be sent.
                    self._outbox.remove([batch[index][0]])
                    error.detail["event"] = batch[index][1]
                raise
            self._outbox.remove([number for number, _ in batch])
            self._backoff.proved()
            async with self._moved:
                self._moved.notify_all()

    async def _rest(self, socket: Socket) -> None:
        """Until there is something to send; a connection that dies meanwhile is found dead then."""
        async with self._moved:
            self._moved.notify_all()
        try:
            await asyncio.wait_for(self._wake.wait(), 10 * self._scale)
        except asyncio.TimeoutError:
            await socket.send("keepalive", {})
            await self._expect(socket, "keepalive_ack", None)

    async def _expect(self, socket: Socket, wanted: str, ref: Optional[int]) -> None:
        while True:
            frame = await socket.receive(ANSWER_S)
            if frame is None:
                raise Lost("no answer")
            kind, data = frame
            if kind == wanted and data.get("ref") == ref:
                return
            if kind == "error":
                raise refusal_of(data)
            if kind == "session_gone":
                raise HoldfastError(str(data.get("reason", "deleted")), "The session is gone.")
