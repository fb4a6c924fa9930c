"""The keys of [engine]: what an engine may use on this machine. They promise nothing."""

import re
from dataclasses import dataclass

from sfumato.policy.entry import Entry, quote_entry, refuse
from sfumato.policy.kinds import Default, Hashed, JsonSchema, PolicyKey, Section, Text, WholeNumber
from sfumato.policy.policy import EngineSettings

MIN_MEMORY_BYTES = 100 * 10**6
MAX_MEMORY_BYTES = 1 << 50
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?(MB|GB|TB|MiB|GiB|TiB)")
_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@dataclass(frozen=True, slots=True)
class MemorySize:
    """An amount of memory such as "4GB" or "512MiB", in bytes."""

    words: str = 'size such as `"4GB"` or `"512MiB"`, from 100 MB'

    def read(self, entry: Entry) -> int:
        match_ = _SIZE.fullmatch(entry.value) if isinstance(entry.value, str) else None
        if match_ is not None:
            number, _, decimals = match_[1].partition(".")
            found: int = int(number + decimals) * _UNITS[match_[2]] // 10 ** len(decimals)
            if MIN_MEMORY_BYTES <= found <= MAX_MEMORY_BYTES:
                return found
        raise refuse(
            entry,
            f"is {quote_entry(entry.value)}.",
            "It is an amount of memory in MB, GB, TB, MiB, GiB or TiB, at least 100MB.",
            'Write for example memory = "4GB".',
        )

    def schema(self) -> JsonSchema:
        return {"type": "string", "pattern": f"^{_SIZE.pattern}$"}


ENGINE = Section(
    (
        PolicyKey(
            "memory",
            MemorySize(),
            Default(words="half of the memory of the machine or its container"),
            "The memory that the engine may use; what does not fit is written to disk.",
            Hashed.APART,
        ),
        PolicyKey(
            "threads",
            WholeNumber(1024),
            Default(words="the processors of the machine or its container"),
            "The number of threads of the engine.",
            Hashed.APART,
        ),
        PolicyKey(
            "temp",
            Text(1000),
            Default(words="beside the ledger"),
            "The folder for what does not fit into memory.",
            Hashed.APART,
        ),
    ),
    into=EngineSettings,
)
