"""Store how often each unit took part, which enforces the bound on participations across snapshots.

One file beside the stream, readable by the data owner only. It is durable before its step is released, so a crash can
cost a unit a participation but never give one more. Proof: proofs/published_stream.md
"""

import hmac
import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from sfumato.secure_files import write_atomically
from sfumato.streams.stream_file import stream_damaged, stream_unavailable


class Participations:
    """Number of participations and last step of each unit, under opaque unit ids made with the dataset's salt."""

    def __init__(self, path: Path, most: int, separation: int, salt: bytes) -> None:
        self._path = path
        self._most = most
        self._separation = separation
        self._salt = hmac.new(salt, b"participations of a stream", sha256).hexdigest()
        self._time = 0
        self._seen: dict[str, tuple[int, int]] = {}

    def load(self, time: int) -> None:
        """Read the file as of this many steps; refuse one that is missing, older or under another salt."""
        if not self._path.exists():
            if time:
                raise stream_damaged("The file of its participations is gone.")
            return
        try:
            digest, _, text = self._path.read_bytes().partition(b"\n")
            data = json.loads(text)
        except OSError:
            raise stream_unavailable("The file of its participations could not be read.") from None
        except ValueError:
            digest, text, data = b"", b"", {}
        if digest != sha256(text).hexdigest().encode() or data["time"] not in (time, time + 1):
            raise stream_damaged("The file of its participations is not the one that belongs to it.")
        if data["salt"] != self._salt:
            raise stream_damaged("The salt beside the ledger has changed, so people cannot be recognised.")
        self._time = data["time"]
        self._seen = {person: (participations, last) for person, (participations, last) in data["seen"].items()}

    def admit(self, time: int, people: Iterable[object]) -> set[object]:
        """Store durably and return the units that may take part in this step; a repeated step admits the same."""
        admitted, seen = set(), dict(self._seen)
        for person in set(people):
            participations, last = seen.get(str(person), (0, -self._separation))
            if last == time:
                admitted.add(person)
            elif participations < self._most and time - last >= self._separation:
                admitted.add(person)
                seen[str(person)] = (participations + 1, time)
        text = json.dumps({"salt": self._salt, "seen": seen, "time": time}, separators=(",", ":")).encode()
        try:
            write_atomically(self._path, sha256(text).hexdigest().encode() + b"\n" + text)
        except OSError:
            raise stream_unavailable("The file of its participations could not be written durably.") from None
        self._time, self._seen = time, seen
        return admitted
