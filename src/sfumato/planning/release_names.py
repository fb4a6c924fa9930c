"""The names under which a ledger may hold a release."""

from dataclasses import dataclass

from sfumato.planning.measurement_identity import MeasurementIdentity


@dataclass(frozen=True, slots=True)
class ReleaseNames:
    """The names under which a ledger may hold the release of a plan."""

    measured: MeasurementIdentity | None
    """What is measured; None where it is identified by its text alone."""
    by_text: str
    """The name by the text of the question: releases of versions before 0.10 have it."""

    @property
    def fingerprint(self) -> str:
        """The name under which a new release is stored."""
        return self.by_text if self.measured is None else self.measured.text

    @property
    def older(self) -> tuple[str, ...]:
        """The names under which an older version may have stored it."""
        return () if self.measured is None else (self.measured.first_text, self.by_text)
