"""The events of a session, in order, each once, across broken connections; and prompts, answers and the cancel."""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass
from typing import Any, AsyncIterator, Deque, Dict, List, Mapping, Optional, Tuple, Union

from .participant import Participant
from .wire import ANSWER_S, KEEPALIVE_S, PASSING, Backoff, Event, HoldfastError, Lost, Socket, Token, refusal_of, session_path, socket_url

MISSED_MAX = 2
BEHIND_S = 1.0


@dataclass(frozen=True)
class Reset:
    """Everything before it is void: the server has another history, or has pruned what was missed."""

    reason: str


@dataclass(frozen=True)
class Receipt:
    """A prompt is on the server's disk."""

    prompt_id: str
    #: Of its event; None while it waits in the queue.
    seq: Optional[int]
    #: It was there before.
    duplicate: bool
    #: It was taken out of the queue, and will not run.
    removed: bool


class Observer:
    """
    ``async for event in Observer(...)`` gives each event once, and a ``Reset`` where a new history begins.

    It begins with the whole log, or after ``position``, an (epoch, seq) of an earlier observer. ``history`` holds the
    newest events, at most ``keep`` of them. ``time_scale`` shortens all waits, for tests.

    Prompts and answers are sent, and receipts are read, while somebody iterates. ``client_id`` is this client's in the
    log: keep it, and an answer that was sent before an interruption is known as its own.
    """

    def __init__(
        self,
        base: str,
        session_id: str,
        *,
        token: Token = None,
        format: str = "markdown",
        position: Optional[Tuple[Optional[str], int]] = None,
        keep: int = 1000,
        client_id: Optional[str] = None,
        time_scale: float = 1.0,
    ) -> None:
        self.client_id = client_id or secrets.token_hex(16)
        self._part = Participant(self.client_id, time_scale)
        self._url = socket_url(base, session_path(session_id, "ws"), {"format": format, "client_id": self.client_id})
        self._token = token
        self._scale = time_scale
        self._epoch, self._seq = self._given = position or (None, 0)
        self._limit = 500
        self._backoff = Backoff(time_scale)
        self.history: Deque[Event] = deque(maxlen=keep)
        #: How many connections there were.
        self.connects = 0

    @property
    def position(self) -> Tuple[Optional[str], int]:
        """The epoch and the seq of the last event that was given out: keep it to go on from there."""
        return self._given

    @property
    def permissions(self) -> List[Event]:
        """The permission requests among the events so far that wait for an answer, the oldest first."""
        return list(self._part.questions.values())

    async def prompt(self, message: str, *, prompt_id: Optional[str] = None, content: Optional[List[Mapping[str, Any]]] = None) -> Receipt:
        """
        Sends a prompt, again on each connection, until the server has it on disk: it runs once. ``seq`` is that of its
        event, None while it waits in the queue. Raises the HoldfastError of a refusal. ``content``: images, files and links.
        """
        data: Dict[str, Any] = {"message": message, "prompt_id": prompt_id or secrets.token_hex(16)}
        if content is not None:
            data["content"] = content
        answer = await self._part.ask("prompt " + data["prompt_id"], "prompt", data)
        return Receipt(answer["prompt_id"], answer["seq"], bool(answer.get("duplicate")), bool(answer.get("removed")))

    async def answer_permission(self, request_id: str, option_id: str) -> Mapping[str, Any]:
        """
        Answers a permission request, again on each connection, until the answer is in the log, and returns the data of that
        event. Raises ``already_resolved`` if another client was first, or nobody waits for an answer any more.
        """
        return await self._part.ask("answer " + request_id, "permission_answer", {"request_id": request_id, "option_id": option_id})

    async def cancel(self, turn: Optional[int] = None) -> bool:
        """Stops the running turn, or this one and no other. Never sent later: False if there is no connection."""
        return await self._part.say("cancel", {} if turn is None else {"turn": turn})

    async def set_name(self, name: Optional[str]) -> None:
        """What this client is called, for all who watch, and in the events of its prompts and answers."""
        self._part.name = name
        await self._part.say("presence", {"name": name})

    async def __aiter__(self) -> AsyncIterator[Union[Event, Reset]]:
        asked_again = False
        while True:
            try:
                self.connects += 1
                self._epoch, self._seq = self._given  # what a caller did not take comes again
                socket = await Socket.open(self._url, self._token, self._scale)
                try:
                    async for item in self._watch(socket):
                        asked_again = False
                        self._give(item)
                        yield item
                finally:
                    self._part.lost()
                    await socket.close()
            except Lost:
                pass
            except HoldfastError as error:
                if error.code == "deleted":
                    self._part.ended(error)
                    return
                if error.code in ("unauthorized", "token_expired") and callable(self._token) and not asked_again:
                    asked_again = True  # it may have another one by now
                elif error.code not in PASSING:
                    self._part.ended(error)
                    raise
            await self._backoff.wait()

    async def _watch(self, socket: Socket) -> AsyncIterator[Union[Event, Reset]]:
        """One connection, until it is lost."""
        is_loading = True
        has_asked = False
        missed = 0
        behind_at = -1
        while True:
            wait = ANSWER_S if is_loading else BEHIND_S if behind_at == self._seq else KEEPALIVE_S
            frame = await socket.receive(wait)
            if frame is None and is_loading:
                self._limit = max(1, self._limit // 4)
                raise Lost("no answer")
            if frame is None:
                if behind_at == self._seq:  # something is missing, and nothing comes
                    behind_at, is_loading = -1, True
                    await self._load(socket)
                    continue
                missed += 1
                if missed > MISSED_MAX:
                    raise Lost("keepalives unanswered")
                await socket.send("keepalive", {"last_seen_seq": self._seq})
                continue
            missed = 0
            kind, data = frame
            if kind == "connected" and not has_asked:
                has_asked = True
                await self._load(socket)
                await self._part.connected(socket)
            elif kind == "events_loaded":
                for item in self._take_page(data):
                    yield item
                is_loading = bool(data["has_more"]) and "reset" not in data
                self._limit = min(500, self._limit * 2)
            elif kind == "events" and not is_loading:
                events, is_whole = self._take(data["events"])
                for event in events:
                    yield event
                if not is_whole:
                    is_loading = True
                    await self._load(socket)
            elif kind == "keepalive_ack" and not is_loading:
                if data["epoch"] != self._epoch:
                    is_loading = True
                    await self._load(socket)
                else:
                    behind_at = self._seq if data["max_seq"] > self._seq else -1
            elif kind == "session_gone":
                raise HoldfastError(str(data["reason"]), "There is no such session any more.")
            elif kind == "prompt_received":
                self._part.received(data)
            elif kind == "error" and not self._part.refused(data):
                raise refusal_of(data)

    def _give(self, item: Union[Event, Reset]) -> None:
        if isinstance(item, Reset):
            self.history.clear()
            self._part.reset()
            self._given = (None, 0)
        else:
            self.history.append(item)
            self._part.see(item)
            self._given = (self._epoch, item["seq"])

    async def _load(self, socket: Socket) -> None:
        request: Dict[str, Any] = {"after_seq": self._seq, "follow": True, "limit": self._limit}
        if self._epoch is not None and self._seq > 0:
            request["epoch"] = self._epoch
        await socket.send("load_events", request)

    def _take_page(self, page: Mapping[str, Any]) -> List[Union[Event, Reset]]:
        reset = page.get("reset")
        items: List[Union[Event, Reset]] = []
        if reset is not None:
            # Nothing of two histories is ever mixed.
            self._seq = page["first_seq"] - 1 if page["events"] else page["max_seq"]
            items.append(Reset(str(reset["reason"])))
        elif self._epoch is not None and page["epoch"] != self._epoch:
            raise Lost("a page of another epoch without a reset")
        self._epoch = page["epoch"]
        events, is_whole = self._take(page["events"])
        if not is_whole:
            raise Lost("a page with a gap")
        return [*items, *events]

    def _take(self, events: List[Event]) -> Tuple[List[Event], bool]:
        """The gap rule: what we have is skipped, what follows is taken, and what comes after a gap is not."""
        taken: List[Event] = []
        for event in events:
            if event["seq"] == self._seq + 1:
                self._seq = event["seq"]
                taken.append(event)
            elif event["seq"] > self._seq:
                return taken, False
        if taken:
            self._backoff.proved()
        return taken, True

