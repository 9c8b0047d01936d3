"""Events on disk that the server has not confirmed: they outlive the process, also if it is killed."""

from __future__ import annotations

import json
import secrets
import sqlite3
from typing import Any, List, Mapping, Tuple

EVENT_BYTES_MAX = 2 * 1024 * 1024


class OutboxFull(Exception):
    """There is no room until the server has confirmed some events."""


class Outbox:
    """
    A file of events, in order, at most ``max_events`` of them and ``max_bytes``. One process at a time has it open: another
    gets ``sqlite3.OperationalError``. Each event gets a key that is never used again, so the server takes it once.
    """

    def __init__(self, path: str, *, max_events: int = 100_000, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        # In exclusive mode the first write takes the lock, and close() gives it back.
        self._db = sqlite3.connect(path, timeout=1, isolation_level=None)
        for line in (
            "PRAGMA locking_mode = EXCLUSIVE",
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = NORMAL",
            "BEGIN EXCLUSIVE",
            "CREATE TABLE IF NOT EXISTS name (prefix TEXT NOT NULL)",
            "CREATE TABLE IF NOT EXISTS event (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL)",
        ):
            self._db.execute(line)
        if self._db.execute("SELECT count(*) FROM name").fetchone()[0] == 0:
            self._db.execute("INSERT INTO name VALUES (?)", (secrets.token_hex(8),))
        self._db.execute("COMMIT")
        self._prefix = str(self._db.execute("SELECT prefix FROM name").fetchone()[0])
        row = self._db.execute("SELECT count(*), coalesce(sum(length(CAST(body AS BLOB))), 0) FROM event").fetchone()
        self._count, self._bytes = int(row[0]), int(row[1])

    def __len__(self) -> int:
        return self._count

    def put(self, event: Mapping[str, Any]) -> None:
        """Adds an event: it is in the file when this returns. Raises OutboxFull, or ValueError if it is too large."""
        body = json.dumps(event, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        size = len(body.encode())
        if size > EVENT_BYTES_MAX:
            raise ValueError(f"an event of {size} bytes")
        if self._count >= self._max_events or (self._count and self._bytes + size > self._max_bytes):
            raise OutboxFull(f"{self._count} events wait for the server")
        self._db.execute("INSERT INTO event (body) VALUES (?)", (body,))
        self._count += 1
        self._bytes += size

    def oldest(self, max_events: int = 500, max_bytes: int = 1024 * 1024) -> List[Tuple[int, Mapping[str, Any]]]:
        """The oldest events with their ids, each with its key; at least one, if there is any."""
        found: List[Tuple[int, Mapping[str, Any]]] = []
        size = 0
        for number, body in self._db.execute("SELECT id, body FROM event ORDER BY id LIMIT ?", (max_events,)):
            size += len(body.encode())
            if found and size > max_bytes:
                break
            found.append((number, {"key": f"{self._prefix}:{number}", **json.loads(body)}))
        return found

    def remove(self, numbers: List[int]) -> None:
        """These are confirmed."""
        for number in numbers:
            row = self._db.execute("SELECT length(CAST(body AS BLOB)) FROM event WHERE id = ?", (number,)).fetchone()
            if row is not None:
                self._db.execute("DELETE FROM event WHERE id = ?", (number,))
                self._count -= 1
                self._bytes -= int(row[0])

    def close(self) -> None:
        self._db.close()
