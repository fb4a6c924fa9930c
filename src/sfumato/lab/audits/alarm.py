"""Alarms: what an audit found that must not be."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One contradiction between what is promised and what was seen, on made-up data."""

    audit: str
    what: str

    def __str__(self) -> str:
        return f"{self.audit}: {self.what}"


FAILURE_PROBABILITY = 1e-9
"""Probability that one statistical check raises a false alarm."""


def list_findings(alarms: Sequence[Finding]) -> str:
    """Return findings as text, one per line.

    >>> list_findings([Finding("exact", "the law is another one")])
    'exact: the law is another one'
    """
    return "\n".join(str(alarm) for alarm in alarms) or "no alarm"
