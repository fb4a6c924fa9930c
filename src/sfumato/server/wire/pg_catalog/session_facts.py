"""What the functions of a session tell: who is connected to what, and with which settings."""

from dataclasses import dataclass

from sfumato.server.wire.settings import Settings


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The facts about one session that its own statements may ask for."""

    user: str
    database: str
    process: int
    host: str
    port: int
    encrypted: bool
    settings: Settings
