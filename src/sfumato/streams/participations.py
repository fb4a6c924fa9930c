"""In which steps each person took part: what keeps a bound on participations true across snapshots.

One file beside the stream, for its owner alone. It is durable before the step that it speaks of is released, so that a
crash can cost a person a participation, never give one more. Proof: proofs/published_stream.md
"""

import hmac
import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from sfumato.secure_files import write_atomically
from sfumato.streams.stream_file import damaged, unavailable


class Participations:
    """How often each person took part, and when last; people are opaque ids, made under the dataset's salt."""

    def __init__(self, path: Path, most: int, separation: int, salt: bytes) -> None:
        self._path = path
        self._most = most
        self._separation = separation
        self._salt = hmac.new(salt, b"participations of a stream", sha256).hexdigest()
        self._time = 0
        self._seen: dict[str, tuple[int, int]] = {}

    def load(self, time: int) -> None:
        """Read what is known after this many steps; what is missing, older or under another salt is refused."""
        if not self._path.exists():
            if time:
                raise damaged("The file of its participations is gone.")
            return
        try:
            digest, _, text = self._path.read_bytes().partition(b"\n")
            data = json.loads(text)
        except OSError:
            raise unavailable("The file of its participations could not be read.") from None
        except ValueError:
            digest, text, data = b"", b"", {}
        if digest != sha256(text).hexdigest().encode() or data["time"] not in (time, time + 1):
            raise damaged("The file of its participations is not the one that belongs to it.")
        if data["salt"] != self._salt:
            raise damaged("The salt beside the ledger has changed, so people cannot be recognised.")
        self._time = data["time"]
        self._seen = {person: (often, last) for person, (often, last) in data["seen"].items()}

    def admit(self, time: int, people: Iterable[object]) -> set[object]:
        """Return who may take part in this step, and remember it durably. The same step again admits the same."""
        admitted, seen = set(), dict(self._seen)
        for person in set(people):
            often, last = seen.get(str(person), (0, -self._separation))
            if last == time:
                admitted.add(person)
            elif often < self._most and time - last >= self._separation:
                admitted.add(person)
                seen[str(person)] = (often + 1, time)
        text = json.dumps({"salt": self._salt, "seen": seen, "time": time}, separators=(",", ":")).encode()
        try:
            write_atomically(self._path, sha256(text).hexdigest().encode() + b"\n" + text)
        except OSError:
            raise unavailable("The file of its participations could not be written durably.") from None
        self._time, self._seen = time, seen
        return admitted
