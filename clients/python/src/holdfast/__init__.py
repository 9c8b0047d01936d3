"""Client for Holdfast sessions; README.md beside this package explains it."""

from .observer import Observer, Receipt, Reset
from .outbox import Outbox, OutboxFull
from .producer import Producer
from .wire import Event, HoldfastError, Token

__all__ = ["Event", "HoldfastError", "Observer", "Outbox", "OutboxFull", "Producer", "Receipt", "Reset", "Token"]
