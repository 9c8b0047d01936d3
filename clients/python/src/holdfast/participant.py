"""Taking part in a session: prompts and answers that wait for their receipt, and are said again on each connection."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Set

from .wire import Event, HoldfastError, Lost, Socket

RETRY_S = 1.0
#: The same may be taken in a moment.
AGAIN = {"storage_failed", "shutting_down", "server_busy"}
#: What of this client's may be refused without an end of the connection.
ASKED = {"prompt", "permission_answer", "cancel", "presence"}


@dataclass
class Pending:
    kind: str
    data: Dict[str, Any]
    done: "asyncio.Future[Dict[str, Any]]"


class Participant:
    def __init__(self, client_id: str, scale: float) -> None:
        self.client_id = client_id
        self.name: Optional[str] = None
        #: The questions that wait for an answer, as far as the events tell.
        self.questions: Dict[str, Event] = {}
        self._scale = scale
        self._socket: Optional[Socket] = None
        self._pending: Dict[str, Pending] = {}
        self._timers: Set["asyncio.Task[None]"] = set()
        #: One of them has not said anything yet: it will say all, whatever else is refused meanwhile.
        self._is_due = False

    async def ask(self, key: str, kind: str, data: Dict[str, Any]) -> Dict[str, Any]:
        """Says it, now or as soon as there is a connection, until it is answered."""
        pending = self._pending.get(key)
        if pending is None:
            pending = Pending(kind, data, asyncio.get_running_loop().create_future())
            self._pending[key] = pending
            await self._send(kind, data)
        return await asyncio.shield(pending.done)

    async def say(self, kind: str, data: Mapping[str, Any]) -> bool:
        """Says it now, or never: False if there is no connection."""
        return await self._send(kind, data)

    async def connected(self, socket: Socket) -> None:
        for timer in list(self._timers):
            timer.cancel()  # everything is said now, in its order
        self._is_due = False
        self._socket = socket
        if self.name is not None:
            await socket.send("presence", {"name": self.name})  # before prompts, which have the name
        for pending in list(self._pending.values()):
            await socket.send(pending.kind, pending.data)

    def lost(self) -> None:
        self._socket = None

    def ended(self, error: HoldfastError) -> None:
        """No connection will come again."""
        for key in list(self._pending):
            self._fail(key, error)

    def reset(self) -> None:
        self.questions.clear()

    def received(self, data: Dict[str, Any]) -> None:
        self._keep("prompt " + str(data["prompt_id"]), data)

    def see(self, event: Event) -> None:
        """What is in the log is answered, whatever was lost on the way."""
        data = event["data"]
        if event["type"] == "user_prompt" and "prompt_id" in data:
            self._keep("prompt " + data["prompt_id"], {"prompt_id": data["prompt_id"], "seq": event["seq"], "duplicate": False})
        elif event["type"] == "permission_request" and "request_id" in data:
            self.questions[data["request_id"]] = event
        elif event["type"] == "permission_resolved" and "request_id" in data:
            self.questions.pop(data["request_id"], None)
            key = "answer " + data["request_id"]
            if data.get("by") == self.client_id:
                self._keep(key, dict(data))
            else:
                first = {"by": data.get("by"), "seq": event["seq"]}
                self._fail(key, HoldfastError("already_resolved", "The request was answered by another client, or withdrawn.", first))

    def refused(self, data: Mapping[str, Any]) -> bool:
        """A refusal of something of ours; False: it is about something else."""
        if data.get("request") not in ASKED:
            return False
        key = "prompt " + str(data.get("prompt_id")) if data["request"] == "prompt" else "answer " + str(data.get("request_id"))
        pending = self._pending.get(key)
        code = str(data.get("code"))
        if pending is None:
            return True
        if code == "already_resolved" and data.get("by") == self.client_id:
            self._keep(key, {"request_id": data.get("request_id"), "outcome": "selected", "by": self.client_id})
            return True  # it had arrived
        if code not in AGAIN:
            self._fail(key, HoldfastError(code, str(data.get("message", "")), dict(data)))
        elif not self._is_due:
            self._is_due = True
            timer = asyncio.get_running_loop().create_task(self._again())
            self._timers.add(timer)
            timer.add_done_callback(self._timers.discard)
        return True

    async def _again(self) -> None:
        """Says all that waits, in its order: what came behind a refused prompt must not come before it."""
        await asyncio.sleep(RETRY_S * self._scale)
        self._is_due = False
        for pending in list(self._pending.values()):
            await self._send(pending.kind, pending.data)

    async def _send(self, kind: str, data: Mapping[str, Any]) -> bool:
        if self._socket is None:
            return False
        try:
            await self._socket.send(kind, data)
        except (Lost, HoldfastError):
            return False  # whoever reads the socket hears of it
        return True

    def _keep(self, key: str, answer: Dict[str, Any]) -> None:
        pending = self._pending.pop(key, None)
        if pending is not None and not pending.done.done():
            pending.done.set_result(answer)

    def _fail(self, key: str, error: HoldfastError) -> None:
        pending = self._pending.pop(key, None)
        if pending is not None and not pending.done.done():
            pending.done.set_exception(error)
            pending.done.exception()  # nobody may be waiting for it any more

