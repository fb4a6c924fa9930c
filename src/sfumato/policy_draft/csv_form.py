"""How CSV files are written, for a draft: their first line says the delimiter, their bytes the encoding.

It is found once, written into the policy and said aloud. When rows are read nothing is guessed any more.
"""

from codecs import getincrementaldecoder
from collections.abc import Iterable, Mapping
from pathlib import Path

from sfumato.engines.duckdb.csv_records import Malformed, beginning, likely_delimiter
from sfumato.errors import BadSource, quote_value
from sfumato.policy.entry import Entry
from sfumato.policy.forms import read_csv_form
from sfumato.policy.policy import CsvFormat

_MARK = b"\xef\xbb\xbf"


def infer_csv_form(paths: Iterable[Path], options: Mapping[str, object]) -> CsvFormat:
    """Return how these files are written; what the owner said of it counts first."""
    delimiters: dict[str, Path] = {}
    encodings: dict[str, Path] = {}
    for path in paths:
        try:
            start = beginning(path).removeprefix(_MARK)
        except Malformed:
            continue  # said better when its names are read
        delimiters.setdefault(likely_delimiter(start), path)
        if (encoding := _encoding(start)) is not None:
            encodings.setdefault(encoding, path)
    keys: dict[str, object] = {}
    for key, sources in (("delimiter", delimiters), ("encoding", encodings)):
        if key in options:
            continue
        if len(sources) > 1:
            raise _differ(key, sources)
        keys |= dict.fromkeys([key] if sources else [], next(iter(sources), ""))
    return read_csv_form(Entry({**keys, **options}, ("csv",)))


def _encoding(start: bytes) -> str | None:
    """Return the encoding of some text; None where it is plain ASCII, which all encodings share."""
    if start.isascii():
        return None
    for encoding, codec in (("utf-8", "utf-8"), ("windows-1252", "cp1252")):
        try:
            getincrementaldecoder(codec)("strict").decode(start)  # the last letter may be cut
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def _differ(key: str, found: Mapping[str, Path]) -> BadSource:
    (one, first), (other, second), *_ = found.items()
    return BadSource(
        f"{quote_value(first.name)} and {quote_value(second.name)} are written differently: {key} {one!r}, and "
        f"{other!r}.",
        "A policy says once how the CSV files of its source are written.",
        f"Write them alike, or draft a policy for each; if both are meant to be read alike, say --csv {key}=….",
    )
