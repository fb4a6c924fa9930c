"""A stream over the database: each new snapshot adds its period, and a dashboard of numbers with bars comes out.

The stream is charged once, to the dataset, before any data is read for it. Proof: proofs/published_stream.md
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.private_query import Key, visible_key
from sfumato.analysis.two_owners import is_flow, refuse_two_owners
from sfumato.database import Database
from sfumato.engines.salt import read_salt
from sfumato.engines.snapshot_paths import places_of
from sfumato.errors import BadParameter, UnsupportedSql, quote_value
from sfumato.exact import decimal_rational, integer, positive_rational
from sfumato.language.rel_nodes import InputNode
from sfumato.language.scalar import ColumnRef, Operator, address
from sfumato.mechanisms.answers import Answers
from sfumato.planning.concentrated_loss import concentrated_loss
from sfumato.planning.plan import PlannedMeasurement
from sfumato.prepare import Prepared, RequestedPrice
from sfumato.query.expression import NOWHERE
from sfumato.query.parse import parse
from sfumato.randomness.source import Source
from sfumato.release.decode import decode
from sfumato.release.rendering.export import optional
from sfumato.release.rendering.table import text_table
from sfumato.streams.charging import quoted_loss
from sfumato.streams.participations import Participations
from sfumato.streams.periods import Periods, lies_in_one_period, read_periods
from sfumato.streams.plans import MAX_STEP_VALUE, GaussianSums, PeriodTables, TreeSums
from sfumato.streams.stream import Stream, stream_path
from sfumato.terminal.exports import check_apart

Published = GaussianSums | TreeSums | PeriodTables
LEVEL = Fraction(95, 100)
_UNIT = "unit of a stream"
_COARSE_SCALE = 1 << 10
_FINE_SCALE = 1 << 20
_MAX_SHOWN_ROWS = 40


@dataclass(frozen=True, slots=True)
class _StreamQuery:
    """The query that every step measures: one integer per public cell, of bounded sensitivity."""

    database: Database
    sql: str
    periods: Periods
    prepared: Prepared

    @property
    def measurement(self) -> PlannedMeasurement:
        return self.prepared.plan.groups[0].measured[0]

    @property
    def cells(self) -> int:
        return len(self.prepared.plan.groups[0].group.all_cells())

    @property
    def step(self) -> Fraction:
        """The grid step of the measurement."""
        return self.prepared.plan.groups[0].derived[0].step

    def is_additive(self) -> bool:
        """Tell whether the answer is a sum over units."""
        quantity, group = self.measurement.quantity, self.prepared.plan.groups[0].group
        return not quantity.distinct or quantity.argument == group.unit

    def is_in_one_period(self) -> bool:
        """Tell whether each row is its own unit and counts in one period only."""
        engine = self.prepared.engine
        query = parse(self.periods.question(self.sql, 1), self.database.catalog_of(engine))
        return not self.prepared.plan.groups[0].group.identity and lies_in_one_period(query.relation, self.periods, 1)


class Dashboard:
    """Released numbers by period and key, with error bars. Closing it closes its stream."""

    def __init__(self, query: _StreamQuery, stream: Stream, people: Participations | None) -> None:
        self._query = query
        self._people = people
        self.stream = stream
        """The stream that stores the noisy numbers."""

    @property
    def plan(self) -> Published:
        """The plan of the stream."""
        plan = self.stream.plan
        if not isinstance(plan, GaussianSums | TreeSums | PeriodTables):
            raise AssertionError("publish makes no other plans")
        return plan

    @property
    def protects(self) -> str:
        """A sentence that says who is protected."""
        return self.plan.protects

    @property
    def loss(self) -> PrivacyLoss:
        """Privacy loss of the whole horizon, charged once."""
        return quoted_loss(self.plan.event, self._query.database.policy.budget.delta)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of `rows`."""
        keys, number = _column_names(self._query.prepared)
        return ("period", *keys, number, f"{number}_low", f"{number}_high")

    def add(self, source: Source | None = None) -> list[dict[str, Any]]:
        """Take a new snapshot, add its period to the stream, and return the rows of that period."""
        time = self.stream.time + 1
        query, plan = self._query, self.plan
        if time > plan.horizon:
            raise BadParameter(
                "The dashboard is complete.", f"It was paid for {plan.horizon} periods.", "Publish another one."
            )
        query.database.refresh()
        prepared = _prepare(query.database, query.periods.question(query.sql, time))
        _require_same(query, prepared)
        values = _exact_totals(prepared) if self._people is None else _admitted_totals(prepared, time, self._people)
        # a refusal beyond 2^40 would depend on private data; clipping does not raise the sensitivity
        self.stream.observe(np.clip(values, -MAX_STEP_VALUE, MAX_STEP_VALUE), source)
        return self.rows()[-query.cells :]

    def rows(self, width: int | None = None, level: object = LEVEL, least: float | None = None) -> list[dict[str, Any]]:
        """Return one dict per period and key: the number and its confidence interval at this level.

        Running sums start at the first period; with a `width` they cover the last `width` periods. Rows whose noisy
        number is below `least` are left out.
        """
        released = self.stream.released
        names, keys = self.columns, _key_values(self._query.prepared)
        sums = not isinstance(self.plan, PeriodTables)
        shown = released if width is None else _window_sums(released, integer(width, "width", 1), sums)
        found: list[dict[str, Any]] = []
        for time, row in enumerate(shown, 1):
            margin = float(self._query.step) * self.plan.margin(level, time, width)
            for cell, estimate in zip(keys, row, strict=True):
                value = float(estimate) * float(self._query.step)
                if least is None or value >= least:
                    line = (self._query.periods.label(time), *cell, value, value - margin, value + margin)
                    found.append(dict(zip(names, line, strict=True)))
        return found

    def plot(self, width: int | None = None) -> Any:
        """Return an Altair chart: a line per key with its band (`pip install 'sfumato[plot]'`)."""
        altair = optional("altair", "plot")
        _, *keys, number, low, high = self.columns
        rows = [
            {
                "period": str(row["period"]),
                "key": ", ".join(str(row[key]) for key in keys) or number,
                "value": row[number],
                "low": row[low],
                "high": row[high],
            }
            for row in self.rows(width)
        ]
        dated = self._query.periods.first is not None
        across = altair.X("period:T" if dated else "period:Q", title=self._query.periods.every)
        drawn = altair.Chart(altair.Data(values=rows)).encode(
            x=across, color=altair.Color("key:N", title=", ".join(keys) or None)
        )
        band = drawn.mark_area(opacity=0.25).encode(y=altair.Y("low:Q", title=number), y2="high:Q")
        return (band + drawn.mark_line().encode(y="value:Q")).properties(width=560, height=320)

    def close(self) -> None:
        """Let go of the stream; the database stays open."""
        self.stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        rows = self.rows()[-_MAX_SHOWN_ROWS:]
        *keys, number, low, _ = self.columns
        cells = [[str(row[key]) for row in rows] for key in keys]
        cells.append([f"{row[number]:,.1f} ± {row[number] - row[low]:,.1f}" for row in rows])
        table = text_table((*keys, number), cells, [False] * len(keys) + [True])
        done = f"{self.stream.time} of {self.plan.horizon} periods"
        return f"{table}\n{done}; cost of all: {self.loss}; ± at 95 %\n{self.protects}"


def publish(
    database: Database,
    sql: str,
    *,
    every: str,
    horizon: int,
    start: object = None,
    epsilon: object = None,
    rho: object = None,
    participations: int | None = None,
    separation: int = 1,
    shows: str = "sums",
    buffers: int = 0,
    path: str | Path | None = None,
) -> Dashboard:
    """Create a stream of one count or sum over a dataset, or continue the one with the same parameters.

    `:from` and `:to` in the question stand for the ends of a period; without them each snapshot is one period. The
    whole horizon costs `epsilon` (or `rho`), once. A person may be in every period unless `participations` says in how
    many they count: that is then enforced, and `separation` too. `shows` is "sums" or "tables". The stream lies at
    `path`, by default beside the ledger.
    """
    if not isinstance(database, Database) or database.account:
        raise BadParameter(
            "Only the owner can publish a stream.",
            "It takes snapshots, and spends from the budget of the dataset.",
            "Open the database without `analyst`.",
        )
    periods = read_periods(every, start)
    steps = integer(horizon, "horizon", 1)
    query = _StreamQuery(database, sql, periods, _prepare(database, periods.question(sql, 1)))
    _require_publishable(query)
    presence = _read_presence(query, steps, participations, separation)
    plan = _make_plan(query, steps, presence, epsilon, rho, shows, buffers)
    words = " ".join(f"STREAM of {shows} {periods.words}, {steps} periods: {sql}".split())
    name = sha256(f"{words} {plan}".encode()).hexdigest()[:16]
    stream_file = places_of(database.policy).sidecar(f"stream-{name}") if path is None else stream_path(path)
    if path is not None:
        check_apart(stream_file, database.policy)
    people = None
    if presence.enforced:
        salt = read_salt(places_of(database.policy).sidecar("copy.salt"))
        people = Participations(
            stream_file.with_name(stream_file.name + ".people"), presence.participations, presence.separation, salt
        )
    stream = _open_or_create(stream_file, plan, words, database)
    try:
        if people is not None:
            people.load(stream.time)
    except BaseException:
        stream.close()
        raise
    return Dashboard(query, stream, people)


def _open_or_create(path: Path, plan: Published, words: str, database: Database) -> Stream:
    if not path.exists():
        return Stream.create(path, plan, ledger=database.payer.ledger, words=words)
    stream = Stream.open(path, ledger=database.payer.ledger)
    if (stream.plan, stream.words) == (plan, words):
        return stream
    stream.close()
    raise BadParameter(
        f"There is another stream at {quote_value(str(path))}.",
        "Its question, its periods or its noise are not these.",
        "Publish with the same words to go on with it, or name another path.",
    )


def _prepare(database: Database, sql: str) -> Prepared:
    """Plan one period. Its price is never charged: the stream has its own charge and noise."""
    return database.prepare(sql, None, RequestedPrice(Fraction(1), fixed=True))


def _require_publishable(query: _StreamQuery) -> None:
    plan = query.prepared.plan
    if plan.event is None:
        raise BadParameter(
            "This question reads public tables only.",
            "Public tables are exact and free.",
            "Ask it with `ask`, as often as you like.",
        )
    if any(group.is_bound_selection for group in plan.groups):
        raise UnsupportedSql(
            "This question selects its contribution bounds privately.",
            "A stream has the same bounds and the same noise at every step.",
            "Ask the owner for a table with plain `rows_per_unit` and `bounds`.",
        )
    if any(is_flow(group.group) for group in plan.groups):
        raise refuse_two_owners("rows with two owners cannot be published as a stream.", NOWHERE, "Ask for each total.")
    plain = (
        len(plan.groups) == 1
        and isinstance(plan.private.outcome.source, InputNode)
        and all(item.scalar.operator is Operator.COLUMN for item in plan.private.outcome.items)
        and len({item.name for item in plan.private.outcome.items}) == len(plan.groups[0].group.keys) + 1
        and len(plan.groups[0].derived) == 1
        and plan.groups[0].derived[0].plain is not None
    )
    if not plain:
        raise UnsupportedSql(
            "This question cannot be published as a stream.",
            "A stream is one COUNT or SUM by its keys, each of them shown, without HAVING, ORDER BY or arithmetic.",
            "Publish each number as a separate stream; computing with them is free.",
        )
    if not plan.groups[0].group.public_keys:
        raise UnsupportedSql(
            "The groups of this question are not declared.",
            "A stream has the same cells at every step, and which occur in the data is not public.",
            "Ask the owner to declare `values` for the keys, or group by other ones.",
        )


def _require_same(query: _StreamQuery, prepared: Prepared) -> None:
    """Refuse a step whose cells or sensitivity differ from those of the charged plan."""
    before, now = query.prepared.plan.groups[0], prepared.plan.groups[0]
    paid, found = before.measured[0].sensitivity, now.measured[0].sensitivity
    fits = found.l1 <= paid.l1 and found.l2_squared <= paid.l2_squared and found.neighbours == paid.neighbours
    if not fits or before.group.all_cells() != now.group.all_cells() or before.derived[0].step != now.derived[0].step:
        raise BadParameter(
            "This question no longer matches the stream.",
            "Its groups or its sensitivity have changed.",
            "Publish another stream.",
        )


@dataclass(frozen=True, slots=True)
class _Presence:
    """Maximum number of steps per unit, their minimum separation, and whether sfumato enforces both."""

    participations: int
    separation: int
    enforced: bool

    def for_neighbours(self, neighbours: Neighbours, horizon: int) -> tuple[int, int]:
        """Return in how many steps neighbouring streams differ, and their minimum separation.

        Under replace a person may leave as many steps as they enter, in any order.
        """
        if neighbours is Neighbours.ADD_REMOVE or self.participations >= horizon:
            return self.participations, self.separation
        return min(2 * self.participations, horizon), 1


def _read_presence(query: _StreamQuery, horizon: int, wanted: object, apart: object) -> _Presence:
    separation = integer(apart, "separation", 1)
    certain = 1 if query.is_in_one_period() else horizon
    participations = certain if wanted is None else integer(wanted, "participations", 1)
    if participations >= certain and separation == 1:
        return _Presence(certain, 1, False)
    identity = query.prepared.plan.groups[0].group.identity
    if identity and query.is_additive():
        return _Presence(min(participations, -(-horizon // separation)), separation, True)
    raise BadParameter(
        "Fewer participations cannot be enforced here.",
        "The number of different values is not the sum of what people add."
        if identity
        else 'With unit = "rows", people cannot be recognised in the next snapshot.',
        "Count rows or people instead."
        if identity
        else "Leave it out, or ask for `:from <= column AND column < :to`: then each row counts once.",
    )


def _make_plan(
    query: _StreamQuery,
    horizon: int,
    presence: _Presence,
    epsilon: object,
    rho: object,
    shows: str,
    buffers: int,
) -> Published:
    sensitivity = query.measurement.sensitivity
    participations, separation = presence.for_neighbours(sensitivity.neighbours, horizon)
    if (epsilon is None) == (rho is None):
        raise BadParameter(
            "A stream has one price.", "Either epsilon or rho decides it.", "Give one of the two, and not both."
        )
    price = None if epsilon is None else positive_rational(decimal_rational(epsilon, "epsilon"), "epsilon")
    if shows == "tables" and price is not None:
        scale = sensitivity.l1 * min(participations, horizon) / price
        return PeriodTables(horizon, scale, sensitivity.neighbours, query.cells, sensitivity.l1, participations)
    if shows != "sums":
        raise BadParameter(
            f"shows = {quote_value(shows)} with this price is not known.",
            "Running sums cost epsilon or rho; tables cost epsilon.",
            "Write shows='sums', or shows='tables' with epsilon.",
        )
    delta = query.database.policy.budget.query_delta
    if price is not None and not delta:
        levels = horizon.bit_length()  # nodes that contain one step
        return TreeSums(
            horizon,
            levels * participations * sensitivity.l1 / price,
            sensitivity.neighbours,
            query.cells,
            participations * sensitivity.l1,
        )
    total = positive_rational(decimal_rational(rho, "rho"), "rho") if price is None else concentrated_loss(price, delta)
    if total is None:
        raise BadParameter(
            "This epsilon is too small for Gaussian noise at the policy's delta.",
            "No rho is left for it.",
            "Give a larger epsilon.",
        )
    return GaussianSums.by_rho(
        total,
        horizon,
        sensitivity.neighbours,
        cells=query.cells,
        change_squared=sensitivity.l2_squared,
        participations=participations,
        separation=separation,
        scale=_FINE_SCALE if sensitivity.l2_squared < _FINE_SCALE else _COARSE_SCALE,
        buffers=buffers,
    )


def _exact_totals(prepared: Prepared) -> Answers:
    """Return the exact totals of the period, one integer per cell: secret."""
    (group,) = prepared.engine.run(prepared.job).groups
    return np.asarray(group.columns[prepared.plan.groups[0].measured[0].name]).astype(object)


def _admitted_totals(prepared: Prepared, time: int, people: Participations) -> Answers:
    """Return the exact totals of the units that may still take part; contributions are read unit by unit."""
    (plan,) = prepared.plan.groups
    group = plan.group
    by_person = replace(group, keys=(*group.keys, Key(_UNIT, group.unit, None)), combinations=None)
    job = prepared.engine.prepare(replace(prepared.plan, groups=(replace(plan, group=by_person),)))
    (result,) = prepared.engine.run(job).groups
    positions = {cell: position for position, cell in enumerate(group.all_cells())}
    admitted = people.admit(time, (key[-1] for key in result.keys if key[:-1] in positions))
    totals: Answers = np.zeros(len(positions), dtype=object)
    for key, value in zip(result.keys, result.columns[plan.measured[0].name], strict=True):
        if key[-1] in admitted and key[:-1] in positions:
            totals[positions[key[:-1]]] += int(value)
    return totals


def _column_names(prepared: Prepared) -> tuple[list[str], str]:
    """Return the names of the key columns, in the order of the cells, and of the number."""
    plan = prepared.plan
    items = zip(plan.private.outcome.items, plan.private.names, strict=True)
    names = {address(item.scalar): name for item, name in items}
    (group,) = plan.groups
    label = group.group.label
    keys = [names[ColumnRef(label, key.name)] for key in group.group.keys]
    return keys, names[ColumnRef(label, group.derived[0].name)]


def _key_values(prepared: Prepared) -> Sequence[tuple[object, ...]]:
    group = prepared.plan.groups[0].group
    return [
        tuple(decode(visible_key(value), key.scalar.facts) for value, key in zip(cell, group.keys, strict=True))
        for cell in group.all_cells()
    ]


def _window_sums(released: Answers, width: int, sums: bool) -> Answers:
    """Return the sums over the last `width` periods, at each."""
    totals = released if sums else np.cumsum(released, axis=0)
    before = np.zeros_like(totals)
    before[width:] = totals[:-width]
    return np.asarray(totals - before)
