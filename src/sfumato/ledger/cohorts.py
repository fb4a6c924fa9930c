"""Which cohorts pay for a charge, and the filters that cohorts have of their own.  Proof: proofs/cohorts.md"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sfumato.accounting.filter import Filter
from sfumato.errors import BadParameter, quote_value

_MAX_LISTED_COHORTS = 20
CohortCaps = Mapping[str, Mapping[str, Filter]]
"""By cohort and account, the filters of those that were charged apart from the others."""


@dataclass(frozen=True, slots=True)
class PayingCohorts:
    """The cohorts that pay for a charge: a question reads people of these alone."""

    kept: str
    """The random id of the assignment of people to cohorts."""
    names: tuple[str, ...]
    shown: bool = field(default=True, compare=False)
    """Whether the account may see the names of cohorts: its role may use the column that they come from."""

    @property
    def visible_names(self) -> tuple[str, ...]:
        """The names, where the account may see them."""
        return self.names if self.shown else ()


def cohorts_content(paying: PayingCohorts | None) -> str:
    """Write which cohorts pay, as a charge holds it; nothing where all people do, also those who come later."""
    if paying is None:
        return ""
    data = {"cohorts": sorted(paying.names), "kept": paying.kept}
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def read_cohorts(content: str) -> PayingCohorts | None:
    """Return which cohorts pay for a charge; ValueError, KeyError or TypeError where a row says it in another way."""
    if not content:
        return None
    data = json.loads(content)
    paying = PayingCohorts(str(data["kept"]), tuple(map(str, data["cohorts"])))
    if not paying.names or not paying.kept or cohorts_content(paying) != content:
        raise ValueError("not the cohorts of a charge")
    return paying


def largest(base: Filter, others: Mapping[str, Filter]) -> Filter:
    """Return a filter whose sums are not below those of any of these: proofs/cohorts.md, 4."""
    filters = (base, *others.values())
    pures = [cohort_filter.pure for cohort_filter in filters if cohort_filter.pure is not None]
    return replace(
        base,
        pure=max(pures) if len(pures) == len(filters) else None,
        renyi=max(cohort_filter.renyi for cohort_filter in filters),
        approximate=max((cohort_filter.approximate for cohort_filter in filters), default=Fraction(0)),
        neighbours=next(
            (cohort_filter.neighbours for cohort_filter in filters if cohort_filter.neighbours is not None), None
        ),
    )


def collapsed(accounts: Mapping[str, Filter], cohorts: CohortCaps) -> dict[str, Filter]:
    """Return the accounts where no cohort has a filter of its own: each at the largest of its sums."""
    return {
        name: largest(base, {cohort: caps[name] for cohort, caps in cohorts.items() if name in caps})
        for name, base in accounts.items()
    }


def changed_caps(cohorts: CohortCaps, change: Callable[[str, Filter], Filter | None]) -> dict[str, dict[str, Filter]]:
    """Return the filters of cohorts after a change of each; None takes it away, and the cohort has the common one."""
    found = {
        cohort: {name: changed for name, cap in caps.items() if (changed := change(name, cap)) is not None}
        for cohort, caps in cohorts.items()
    }
    return {cohort: caps for cohort, caps in found.items() if caps}


def named_cohort(cohort: object, every: PayingCohorts | None) -> PayingCohorts | None:
    """Return one cohort by its name, or all; refuse a name that no cohort has."""
    if cohort is None:
        return every
    every = every if every is not None and every.shown else None
    if every is None or cohort not in every.names:
        known = "" if every is None else f" They are: {', '.join(every.names[:_MAX_LISTED_COHORTS])}."
        raise BadParameter(
            f"{quote_value(cohort)} is not a cohort.",
            "The policy does not divide people into cohorts." if every is None else f"It names no open cohort.{known}",
            "Leave it out." if every is None else "Use one of these names.",
        )
    return PayingCohorts(every.kept, (str(cohort),))


def cohort_notes(names: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return what an answer says that only some cohorts pay for."""
    if names is None:
        return ()
    listed = ", ".join(names[:_MAX_LISTED_COHORTS]) + (
        f" and {len(names) - _MAX_LISTED_COHORTS:,} more" if names[_MAX_LISTED_COHORTS:] else ""
    )
    return (
        f"Charged to and read from the people of {'cohort' if len(names) == 1 else 'cohorts'} {listed} only. A person "
        "stays in the cohort of their first registration, so people who moved here since are not counted.",
    )
