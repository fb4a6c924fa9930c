"""Record and replay: the input of every mechanism on one database, against its input on a neighbour.

Noise hides a wrong sensitivity from all but many samples; the inputs of the mechanisms do not. They are recorded where
noise is drawn, with the coins, and compared: a person may move them by the declared sensitivity, and the order of rows
by nothing at all.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.accounting.approximate import separate
from sfumato.accounting.event import Composed, Event, Neighbours
from sfumato.accounting.pld import delta_bounds
from sfumato.accounting.pure import epsilon as pure_epsilon
from sfumato.analysis.private_query import KeyValue, visible_key
from sfumato.engines.aggregates import GroupAggregates, Held, KeyFrequencies, PairsByCell
from sfumato.errors import EngineFailed, Refusal
from sfumato.lab.audits.alarm import Finding
from sfumato.lab.audits.subject import Subject, open_subject, schema_of
from sfumato.lab.generators.clinic import clinic
from sfumato.lab.generators.population import HIGH_ID, LOW_ID, WANDERER_ID, Population, populate
from sfumato.lab.generators.questions import questions
from sfumato.lab.generators.seeded import Seeded
from sfumato.lab.generators.seeded_random import SeededDice
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.key_rounds import KeyRounds
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.mechanisms.max_norm import MaxNorm, MaxNormPart
from sfumato.mechanisms.meetings import Meetings, SharedKeys
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.mechanisms.spelled_list import SpelledList
from sfumato.mechanisms.threshold import Selected
from sfumato.mechanisms.top_list import TopList
from sfumato.planning.plan import GroupPlan, Plan, PlannedMeasurement
from sfumato.policy.policy import Policy
from sfumato.randomness.source import Metered, Source
from sfumato.release.noisy import NoisyResult
from sfumato.release.publish import publish
from sfumato.sensitivity.cross_unit_joins import MIN_KEY_FREQUENCY

NAME = "replay"
QUERY_EPSILON = 1
"""The epsilon of every question."""
_MAX_COMPOSED_EVENTS = 2
_RECORDED_MECHANISMS = (Laplace, Gaussian, MaxNorm, OptimalSelection, RenyiSelection, CountedKeys, TopList)
_SELECTIONS = (OptimalSelection, RenyiSelection, CountedKeys, TopList)
_UNOPENED_MECHANISMS = (Quantiles, MatchedCount, Meetings, SpelledList)
"""Mechanisms recorded as one call; the noise they draw inside is not recorded."""

RecordedSelection = OptimalSelection | RenyiSelection | CountedKeys | TopList
RecordedMechanism = Laplace | Gaussian | MaxNorm | RecordedSelection
Vector = dict[tuple[KeyValue, ...], int]
"""An integer for each cell, by its keys."""


@dataclass(frozen=True, slots=True)
class MechanismCall:
    """One use of a mechanism: what it was given and what it drew; a selection draws nothing here."""

    mechanism: RecordedMechanism
    values: tuple[int, ...]
    noise: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """A question on one database: its plan, the cells of each group, and every call in order."""

    plan: Plan
    keys: tuple[tuple[tuple[KeyValue, ...], ...], ...]
    calls: tuple[MechanismCall, ...]
    noisy: NoisyResult
    held: tuple[Mapping[str, Vector], ...]
    """Of each group, what the buckets of everything that is chosen hold, by the cell's keys and the bucket."""

    @property
    def expected(self) -> list[RecordedMechanism]:
        """The mechanisms that the plan names, in the order in which they are used."""
        mechanisms: list[RecordedMechanism] = []
        for group in self.plan.groups:
            selection = group.selection.rounds[0] if isinstance(group.selection, KeyRounds) else group.selection
            mechanisms += [] if selection is None or isinstance(selection, SpelledList) else [selection]
            mechanisms += [mechanism for mechanism, _ in _mechanisms_in_order(group)]
        return mechanisms


def record(subject: Subject, plan: Plan, seed: object) -> Recording:
    """Answer a planned question with these coins and write down what each mechanism was given.

    A selection of keys lets every key pass, so that all cells can be compared; what it was given is recorded.
    """
    aggregates = subject.run(plan)
    with recording() as calls:
        noisy = publish(plan, aggregates, Seeded(seed))
    held = tuple(
        {name: _held_vector(group, held_value) for name, held_value in group.held.items()}
        for group in aggregates.groups
    )
    return Recording(plan, tuple(group.keys for group in noisy.groups), tuple(calls), noisy, held)


def _held_vector(group: GroupAggregates, held: Held) -> Vector:
    if isinstance(held, KeyFrequencies):
        powers = ((cell, key, times) for cell in held.cells for key, times in held.for_cell(cell))
        return {(*group.keys[cell], *key): times for cell, key, times in powers}
    if isinstance(held, PairsByCell):
        raise AssertionError("rows with two owners are not generated")
    entries = zip(held.cells.tolist(), held.buckets.tolist(), held.weights.tolist(), strict=True)
    return {(*group.keys[cell], bucket): weight for cell, bucket, weight in entries}


@contextmanager
def recording() -> Iterator[list[MechanismCall]]:
    """Write down every call of a mechanism that draws from a source of its own, not from a metered one."""
    calls: list[MechanismCall] = []
    originals: dict[type, Any] = {kind: kind.release for kind in (*_RECORDED_MECHANISMS, *_UNOPENED_MECHANISMS)}
    inside: list[object] = []

    def _selected(self: RecordedSelection, values: object, source: Source) -> Any:
        inputs = np.asarray(values)
        calls.append(MechanismCall(self, tuple(inputs.tolist()), ()))
        places = np.arange(len(inputs))
        return places if isinstance(self, OptimalSelection | RenyiSelection) else Selected(places, inputs)

    def _noised(self: Any, values: object, source: Source) -> Any:
        answers = originals[type(self)](self, values, source)
        if not inside and not isinstance(source, Metered):  # that is the second draw, which is never shown
            inputs = np.asarray(values).ravel()  # of histograms, cell after cell
            noise = np.asarray(answers).astype(object).ravel() - inputs.astype(object)
            calls.append(MechanismCall(self, tuple(inputs.tolist()), tuple(noise.tolist())))
        return answers

    def _whole(self: Any, *values: object) -> Any:
        inside.append(self)
        try:
            return originals[type(self)](self, *values)
        finally:
            inside.pop()

    try:
        for kind in _RECORDED_MECHANISMS:
            setattr(kind, "release", _selected if kind in _SELECTIONS else _noised)  # noqa: B010
        for whole in _UNOPENED_MECHANISMS:
            setattr(whole, "release", _whole)  # noqa: B010
        yield calls
    finally:
        for changed, original in originals.items():
            setattr(changed, "release", original)  # noqa: B010


def price_alarms(recorded: Recording) -> Iterator[str]:
    """Report calls that cost more than the plan quotes or that are not in the plan.

    Gaussian noise is priced by the distribution of its loss where no more than two measurements are composed: there
    that takes a moment, and longer compositions are planned by the same lines.
    """
    if [call.mechanism for call in recorded.calls] != recorded.expected:
        yield "the mechanisms that were used are not those of the plan"
    loss = recorded.plan.loss
    if loss.epsilon > QUERY_EPSILON:
        yield f"{loss} is quoted where ε = {QUERY_EPSILON} was asked for"
    events: list[Event] = _events(recorded)
    events += [selection.mechanism.event for group in recorded.plan.groups for selection in group.chosen]
    if not events:
        return
    composed = Composed(tuple(events))
    core, delta = separate(composed)
    if not any(_is_priced_at_delta(call.mechanism) for call in recorded.calls):
        if Fraction(pure_epsilon(core)) > loss.epsilon or delta > loss.delta:
            yield f"what was drawn costs more than the quoted {loss}"
        elif recorded.plan.event is None or pure_epsilon(separate(recorded.plan.event)[0]) < pure_epsilon(core):
            yield "the event that is charged costs less than what was drawn"
    elif len(events) <= _MAX_COMPOSED_EVENTS and delta_bounds(composed, loss.epsilon)[0] > loss.delta:
        yield f"what was drawn costs more than the quoted {loss}"
    if recorded.plan.event is None or separate(recorded.plan.event)[1] < delta:
        yield "the event that is charged leaves out a delta"


def _events(recorded: Recording) -> list[Event]:
    """Return what was drawn; noise on measurements of which a row moves one at most is one event."""
    calls, found = iter(recorded.calls), list[Event]()
    for group in recorded.plan.groups:
        selecting = group.selection is not None and not isinstance(group.selection, SpelledList)
        found += [next(calls).mechanism.event] if selecting else []
        for _, several in _mechanisms_in_order(group):
            call = next(calls, None)
            if call is None:
                return found  # reported by the number of calls
            if several[0].name not in group.vector:
                found.append(call.mechanism.event)
            elif several[0].name == group.vector[0]:
                found.append(group.vector_event)
    return [*found, *(call.mechanism.event for call in calls)]


def _vector_alarms(
    group: GroupPlan, moved: Mapping[str, Sequence[int]], shared: Fraction, distance: int
) -> Iterator[str]:
    """Report where the measurements of a vector moved further together than one of them may alone."""
    together = shared + sum(
        Fraction(sum(moved[measurement.name]), measurement.sensitivity.l1)
        for measurement in group.measured
        if measurement.name in group.vector and not isinstance(measurement.mechanism, MaxNormPart)
    )
    if together > distance:
        yield f"{', '.join(group.vector)} moved together by {float(together):g} times what is declared for one of them"


def _is_priced_at_delta(mechanism: RecordedMechanism) -> bool:
    noise = mechanism.noise if isinstance(mechanism, CountedKeys | TopList) else mechanism
    return isinstance(noise, Gaussian | RenyiSelection)


def compare(one: Recording, other: Recording, distance: int) -> Iterator[str]:
    """Report where neighbours (or, at distance 0, the same people) differ by more than was declared."""
    if one.plan != other.plan:
        yield "the plan depends on the data"
        return
    if len(one.calls) != len(other.calls) or len(one.calls) != len(one.expected):
        yield "the number of mechanisms that were used depends on the data or is not the plan's"
        return
    mine, theirs = iter(one.calls), iter(other.calls)
    aligned = True  # until a group whose cells are not public: it draws as many coins as it has cells
    for group, first_keys, second_keys in zip(one.plan.groups, one.keys, other.keys, strict=True):
        aligned = aligned and group.group.public_keys
        if group.group.public_keys and first_keys != second_keys:
            yield "the keys that are shown as public depend on the data"
            continue
        if group.selection is not None and not isinstance(group.selection, SpelledList):
            yield from _selection(group.selection, next(mine), next(theirs), distance)
        moved_in_all: dict[str, Sequence[int]] = {}
        shared = Fraction(0)
        for mechanism, several in _mechanisms_in_order(group):
            first, second = next(mine), next(theirs)
            vectors = _vector(first_keys, first), _vector(second_keys, second)
            for index, measured in enumerate(several):
                one_of_them, other_one = (_slice_vector(vector, index, len(several)) for vector in vectors)
                moves = _differences_by_key(one_of_them, other_one)
                if isinstance(group.selection, TopList):  # here all cells pass, and only `chosen` are released
                    moves = sorted(moves, reverse=True)[: group.selection.chosen * _width(first_keys, first)]
                moved_in_all[measured.name] = moves
                yield from _measurement(measured, moves, distance)
            if isinstance(mechanism, MaxNorm):
                yield from _joint_noise_alarms(mechanism, *vectors, distance)
                if several[0].name in group.vector:
                    shared = _joint_moves(mechanism, *vectors) / mechanism.sensitivity
            if aligned and first.noise != second.noise:
                yield f"{several[0].name}: the noise of equal coins depends on the data"
        yield from _vector_alarms(group, moved_in_all, shared, distance)
    for group, here_held, there_held in zip(one.plan.groups, one.held, other.held, strict=True):
        for chosen in group.chosen:
            if isinstance(chosen.mechanism, Meetings):
                one_side, other_side = (_keys_met(group, held[chosen.name]) for held in (here_held, there_held))
                yield from cross_unit_alarms(chosen.mechanism, one_side, other_side, distance)
                continue
            moved = sum(_differences_by_key(here_held[chosen.name], there_held[chosen.name]))
            # under replace what leaves and what enters may each be a whole weight
            most = chosen.weight * distance * (1 if chosen.mechanism.neighbours is Neighbours.ADD_REMOVE else 2)
            if moved > most:
                yield f"{chosen.name} moved by {moved} in total, and {most} is declared"


def _keys_met(group: GroupPlan, held: Vector) -> Sequence[SharedKeys]:
    """Return the keys by which people meet, cell by cell."""
    width = len(group.group.keys)
    return [
        [
            (tuple(int(visible_key(power) or 0) for power in key[width:]), times)
            for key, times in held.items()
            if key[:width] == cell
        ]
        for cell in group.group.all_cells()
    ]


def cross_unit_alarms(
    mechanism: Meetings, first: Sequence[SharedKeys], second: Sequence[SharedKeys], distance: int
) -> Iterator[str]:
    """Report where the key frequency, or pairs limited to one, moved further than declared."""
    most = max(mechanism.max_key_frequency(first), mechanism.max_key_frequency(second))
    if abs(mechanism.max_key_frequency(first) - mechanism.max_key_frequency(second)) > distance:
        yield "the key frequency changed by more than one person can change it"
    for crowd in range(MIN_KEY_FREQUENCY, max(MIN_KEY_FREQUENCY, most) + 2):
        pairs = zip(mechanism.meetings(first, crowd), mechanism.meetings(second, crowd), strict=True)
        moved, declared = sum(abs(left - other) for left, other in pairs), mechanism.noise(crowd).sensitivity
        if moved > declared * distance:
            yield f"cross-unit counts changed by {moved} at a key frequency of {crowd}, and {declared} is declared"


def _mechanisms_in_order(group: GroupPlan) -> list[tuple[RecordedMechanism, tuple[PlannedMeasurement, ...]]]:
    """Return the mechanisms of a group in the order in which they are used, each with what it is used for."""
    used: list[tuple[RecordedMechanism, tuple[PlannedMeasurement, ...]]] = []
    for measurement in group.measured_after_selection:
        if not isinstance(measurement.mechanism, MaxNormPart):
            used.append((measurement.mechanism, (measurement,)))
        elif measurement.mechanism.place == 0:
            used.append((measurement.mechanism.joint, group.joint_noise_measurements))
    return used


def _slice_vector(vector: Vector, place: int, parts: int) -> Vector:
    """Return the part of one measurement from a vector of several, cell after cell."""
    return vector if parts == 1 else {key: value for key, value in vector.items() if key[-1] == place}


def _joint_noise_alarms(mechanism: MaxNorm, first: Vector, second: Vector, distance: int) -> Iterator[str]:
    """Report where cells moved further, separately or in total, than their joint noise covers."""
    if (moved := _joint_moves(mechanism, first, second)) > mechanism.sensitivity * distance:
        yield f"cells moved by {moved} sides, and {mechanism.sensitivity * distance} are declared"


def _joint_moves(mechanism: MaxNorm, first: Vector, second: Vector) -> Fraction:
    """Return how many sides all cells moved by together: in each cell the number counts that moved most."""
    farthest: dict[tuple[KeyValue, ...], Fraction] = {}
    for key in {*first, *second}:
        *cell, place = key
        moved = Fraction(abs(first.get(key, 0) - second.get(key, 0)), mechanism.sides[int(visible_key(place) or 0)])
        farthest[tuple(cell)] = max(moved, farthest.get(tuple(cell), Fraction(0)))
    return sum(farthest.values(), Fraction(0))


def _vector(keys: Sequence[tuple[KeyValue, ...]], call: MechanismCall) -> Vector:
    width = _width(keys, call)
    return dict(zip(((*key, bucket) for key in keys for bucket in range(width)), call.values, strict=True))


def _width(keys: Sequence[tuple[KeyValue, ...]], call: MechanismCall) -> int:
    return len(call.values) // max(len(keys), 1)  # of a histogram, all buckets of a cell


def _differences_by_key(
    first: Mapping[tuple[KeyValue, ...], int], second: Mapping[tuple[KeyValue, ...], int]
) -> list[int]:
    return [abs(first.get(key, 0) - second.get(key, 0)) for key in {*first, *second}]


def _measurement(measured: PlannedMeasurement, moves: list[int], distance: int) -> Iterator[str]:
    total, squares, most = sum(moves), sum(move * move for move in moves), max(moves, default=0)
    declared, mechanism = measured.sensitivity, measured.mechanism
    if total > declared.l1 * distance:
        yield f"{measured.name} moved by {total} in total, and {declared.l1 * distance} is declared"
    elif squares > declared.l2_squared * distance or most > declared.linf * distance:
        yield f"{measured.name} moved further than declared in one cell"
    elif isinstance(mechanism, Laplace) and total > mechanism.sensitivity * distance:
        yield f"{measured.name} moved by {total}, and its noise is for {mechanism.sensitivity * distance}"
    elif isinstance(mechanism, Gaussian) and squares > mechanism.sensitivity_squared * distance:
        yield f"{measured.name} moved further than its noise is for"


def _selection(
    selection: RecordedSelection | KeyRounds, first: MechanismCall, second: MechanismCall, distance: int
) -> Iterator[str]:
    """The cells come in the engine's order: compare the largest with the largest, and so on; no cell holds nothing.

    One person moves none of these by more than a cell, and all of them together by no more than all cells.
    """
    ordered = (sorted(call.values, reverse=True) for call in (first, second))
    moves = [abs(here - there) for here, there in zip_longest(*ordered, fillvalue=0)]
    changed, most = sum(moves), selection.most if isinstance(selection, CountedKeys) else 1
    declared = selection.touched * distance * most
    if changed > declared:
        yield f"{changed} keys gained or lost a person, and {declared} are declared"
    elif max(moves, default=0) > most * distance:
        yield f"a key gained or lost {max(moves)}, and {most * distance} is declared"
    elif isinstance(selection, CountedKeys):
        noise, squares = selection.noise, sum(move * move for move in moves)
        enough = noise.sensitivity if isinstance(noise, Laplace) else noise.sensitivity_squared
        if (changed if isinstance(noise, Laplace) else squares) > enough * distance:
            yield f"what selects keys moved by {changed}, and its noise is for less"


def neighbours_of(population: Population, policy: Policy, seed: object) -> dict[str, tuple[Population, int]]:
    """Return neighbours by what was done to them, with the distance: the worst people removed, or replaced."""
    neighbours: dict[str, tuple[Population, int]] = {}
    if policy.neighbours is Neighbours.REPLACE:
        for like in (LOW_ID, WANDERER_ID):
            other = populate(policy, seed, likeness={HIGH_ID: like})
            neighbours[f"{HIGH_ID} became like {like}"] = (population.with_rows_of(str(HIGH_ID), other), 1)
        return neighbours
    neighbours["rows shuffled"] = (population.shuffled(SeededDice(seed)), 0)
    rows = [owner for owner in population.owners if "/" in owner][:1]
    for owner in (str(HIGH_ID), str(LOW_ID), str(WANDERER_ID), *rows):
        neighbours[f"without {owner}"] = (population.without(owner), 1)
    return neighbours


def audit(policy: Policy, folder: Path, seed: object, pattern: str = "", only: int | None = None) -> list[Finding]:
    """Record every plain question (that a pattern matches) and replay it on neighbours, until one of them differs.

    `only` says which one of the neighbours, counted on for ever.
    """
    population = populate(policy, seed)
    with open_subject(policy, population, folder / "all") as subject:
        queries = [sql for sql in questions(schema_of(subject.engine.catalog)) if re.search(pattern, sql)]
        recorded = {sql: made for sql in queries if (made := _record_query(subject, sql, seed)) is not None}
        alarms = [
            Finding(NAME, f"{sql}: {message}") for sql, made in recorded.items() for message in price_alarms(made)
        ]
        neighbours = list(neighbours_of(population, policy, seed).items())
        for index, (name, (other, distance)) in enumerate(
            neighbours if only is None else [neighbours[only % len(neighbours)]]
        ):
            if alarms:
                break
            with open_subject(policy, other, folder / str(index)) as neighbour:
                for sql, made in recorded.items():
                    again = record(neighbour, neighbour.plan(sql), seed)
                    alarms += [Finding(NAME, f"{sql}, {name}: {message}") for message in compare(made, again, distance)]
    return alarms


def _record_query(subject: Subject, sql: str, seed: object) -> Recording | None:
    """Record a question that is answered; one that is refused has nothing to replay, nor have spelled texts."""
    try:
        plan = subject.plan(sql)
    except EngineFailed:
        raise
    except Refusal:
        return None
    if any(isinstance(group.selection, SpelledList) for group in plan.groups):
        return None
    return record(subject, plan, seed)


def run(seed: object, folder: Path) -> list[Finding]:
    """Audit the clinic: as it is, and where people are replaced instead of removed."""
    alarms = audit(clinic(), folder / "removed", seed)
    return alarms or audit(clinic(neighbours="replace"), folder / "replaced", seed, "visits")
