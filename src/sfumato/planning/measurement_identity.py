"""The identity of a charge: what is measured, with which noise. Everything above the noise is post-processing.

Two plans with one identity release numbers of the same law about the same rows, in another order at most, so one charge
pays for both. Proof: proofs/measurement_identity.md
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from sfumato.analysis.private_query import Cell, Group, Key
from sfumato.caches import SameObjects, remembered
from sfumato.language.rel_nodes import RelNode
from sfumato.language.scalar import Scalar
from sfumato.mechanisms.bounded_flow import BoundedFlow
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.mechanisms.max_norm import MaxNormPart
from sfumato.mechanisms.meetings import Meetings
from sfumato.mechanisms.permute_and_flip import PermuteAndFlip
from sfumato.mechanisms.quantiles import ENDS_FAILURE, Quantiles
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.canonical_flow import CanonicalFlow, NoisyInputError, constant_data, digest
from sfumato.planning.plan import GroupPlan, Plan, PlannedMeasurement
from sfumato.planning.view_signature import ViewSignature, signature_from, signature_of
from sfumato.planning.ways import KnownNeeds
from sfumato.sensitivity.norms import Sensitivity

FORM = "measurements 1"
"""The first word of an identity; another meaning is another word."""

_VIEWS_INDEX = 4
"""The place of the views in an identity."""
_HASH_CHARS = len(digest(None))
_DECODER = json.JSONDecoder()
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_MAX_READ_SIGNATURES = 256
"""Maximum number of stored charges whose signatures are remembered: each question compares the last ones."""
_MAX_SHARED_KEYS = 256
"""Maximum number of digests of keys that the plans of one question share."""
_MAX_SHARED_NOISES = 16
"""Maximum number of mechanisms that the plans of one question share: those of one price, about."""
Placed = TypeVar("Placed")
Choosing = Quantiles | PermuteAndFlip | Meetings | MatchedCount | BoundedFlow


@dataclass(frozen=True, slots=True)
class MeasuredGroup:
    """Where the parts of one canonical group are in the plan: `keys` are places, `columns` names of measurements."""

    place: int
    keys: tuple[int, ...]
    columns: tuple[str, ...]
    cells: str
    """The identity of its rows and keys, whatever is measured of them."""
    quantities: tuple[str, ...]
    """The identity of what each of `columns` measures, whatever its noise."""


@dataclass(frozen=True, slots=True)
class MeasurementIdentity:
    """The canonical text of all that a plan measures, and where each part of it is in the plan."""

    text: str
    groups: tuple[MeasuredGroup, ...]
    first_text: str = ""
    """The text without what its groups can be views of: releases of version 0.11.0 have it."""
    signatures: tuple[ViewSignature | None, ...] = ()
    """What each of `groups` can be a view of."""

    @property
    def cells(self) -> str:
        """The identity of all rows and keys: those who measure the same cells share it, and `text` begins with it."""
        return self.text[PREFIX_CHARS - _HASH_CHARS - 1 : PREFIX_CHARS - 1]

    def signature_at(self, place: int) -> ViewSignature | None:
        """Return what the group at a place of the plan can be a view of."""
        return next(
            (known for one, known in zip(self.groups, self.signatures, strict=True) if one.place == place), None
        )


def words_of(identity: MeasurementIdentity) -> str:
    """Return the digest of the policy's words about the tables of an identity."""
    words, _ = _DECODER.raw_decode(identity.text, PREFIX_CHARS + 1)
    return str(words)


def cells_prefix(cells: str) -> str:
    """Return how the text of every identity of these cells begins; it always has `PREFIX_CHARS` characters.

    >>> len(cells_prefix(digest("cells"))) == PREFIX_CHARS
    True
    """
    return _ENCODER.encode([FORM, cells])[:-1]


PREFIX_CHARS = len(cells_prefix("0" * _HASH_CHARS))


class SharedParts:
    """What the identities of several plans of one question have in common: flows of rows, and digests of keys.

    Both are functions of objects that are found by their id, so each is kept beside what was made of it.
    """

    def __init__(self) -> None:
        self.flows: dict[int, tuple[RelNode, CanonicalFlow]] = {}
        self.needs = KnownNeeds()
        self.meaning = ""
        """The canonical text of the question."""
        self.beginnings: tuple[str, ...] | None = None
        """How the names of all plans of the question begin, at whatever price; None where that is not known."""
        self.counted_plans = 0
        """How many plans were made when bytes were counted."""
        self.max_plan_bytes = 0
        """The bytes of a plan of the question at one price, and of its part of this: more than at another price."""
        self._keys: dict[tuple[int, int, Scalar, bool, bool], tuple[Key, str]] = {}
        self._quantities: dict[tuple[int, Quantity, Sensitivity, bool], str] = {}
        self._rows: dict[SameObjects, str] = {}
        self._cells: dict[SameObjects, str] = {}
        self._signatures: dict[SameObjects, tuple[ViewSignature | None]] = {}
        self._noises: dict[SameObjects, object] = {}

    def flow(self, rows: RelNode) -> CanonicalFlow:
        """Return the canonical flow of rows."""
        found = self.flows.get(id(rows))
        if found is None:
            found = self.flows[id(rows)] = rows, CanonicalFlow(rows)
        return found[1]

    def key(self, key: Key, flow: CanonicalFlow) -> str:
        """Return the digest of a key over a flow."""
        part = id(flow), id(key.cells), key.scalar, key.has_remainder, key.null_is_apart
        found = self._keys.get(part)
        if found is None:
            if len(self._keys) >= _MAX_SHARED_KEYS:
                self._keys.clear()
            found = self._keys[part] = key, _key(key, flow)
        return found[1]

    def rows(self, group: Group, flow: CanonicalFlow) -> str:
        """Return the digest of the rows of a group, their owner, and how much one person may add to them."""
        part = SameObjects(flow, group.unit, group.contribution, group.identity)
        found = self._rows.get(part)
        if found is None:
            if len(self._rows) >= _MAX_SHARED_KEYS:
                self._rows.clear()
            data = [flow.rows, flow.data(group.unit), group.identity, flow.data(group.contribution)]
            found = self._rows[part] = digest(data)
        return found

    def cells(self, group: Group, keys: list[str], combinations: str | None, flow: CanonicalFlow) -> str:
        """Return the digest of the rows of a group with its keys, in their order."""
        part = SameObjects(flow, group)
        found = self._cells.get(part)
        if found is None:
            if len(self._cells) >= _MAX_SHARED_KEYS:
                self._cells.clear()
            found = self._cells[part] = digest([self.rows(group, flow), keys, combinations])
        return found

    def signature(self, plan: GroupPlan, flow: CanonicalFlow, words: str) -> ViewSignature | None:
        """Return what a group is a view of, whatever its noise."""
        measured = (part for one in plan.measured for part in (one.quantity, one.bound is None))
        part = SameObjects(flow, plan.group, plan.selection is None, bool(plan.chosen), words, *measured)
        known = self._signatures.get(part)
        if known is None:
            if len(self._signatures) >= _MAX_SHARED_KEYS:
                self._signatures.clear()
            known = self._signatures[part] = (signature_of(plan, flow, words),)
        return known[0]

    def noise(self, mechanism: Laplace | Gaussian | MaxNormPart, flow: CanonicalFlow) -> object:
        """Return the noise of a measurement as data; plans with other cells have the same."""
        part = SameObjects(mechanism)
        found = self._noises.get(part)
        if found is None:
            if len(self._noises) >= _MAX_SHARED_NOISES:
                self._noises.clear()
            found = self._noises[part] = _noise(mechanism, flow)
        return found

    def quantity(self, one: PlannedMeasurement, selecting: bool, flow: CanonicalFlow) -> str:
        """Return the digest of what a measurement without a bound of its own measures."""
        part = id(flow), one.quantity, one.sensitivity, selecting
        found = self._quantities.get(part)
        if found is None:
            if len(self._quantities) >= _MAX_SHARED_KEYS:
                self._quantities.clear()
            found = self._quantities[part] = _quantity(one, None, selecting, flow)
        return found


def measurement_identity(
    plan: Plan, words: str, shared: SharedParts | None = None, refines: str = ""
) -> MeasurementIdentity | None:
    """Return what a plan measures, with the digest of the policy's words about its tables.

    `refines` is the receipt of an answer that it is measured beside: with the same noise it is another measurement.
    None where a group reads noisy numbers: then its rows are not a function of the snapshot.
    """
    shared = shared or SharedParts()
    try:
        selecting = [(place, group) for place, group in enumerate(plan.groups) if group.is_bound_selection]
        flows = [shared.flow(group.group.rows) for group in plan.groups]
        selections = {
            group.group.label: _selects(*_group(group, place, {}, flows[place], shared)) for place, group in selecting
        }
        groups = [_group(group, place, selections, flows[place], shared) for place, group in enumerate(plan.groups)]
    except NoisyInputError:
        return None
    ordered = _in_order(groups, lambda group: group[0])
    cells = _cells_identity(words, (placed.cells for _, placed in groups))
    beside = [["refines", refines]] if refines else []
    parts = [FORM, cells, words, [*(text for text, _ in ordered), *beside]]
    found = tuple(shared.signature(plan.groups[one.place], flows[one.place], words) for _, one in ordered)
    family = family_of([one.base for one in found if one is not None])
    views = [None if one is None else one.data() for one in found]
    return MeasurementIdentity(
        _ENCODER.encode([*parts, views, family]),
        tuple(placed for _, placed in ordered),
        _ENCODER.encode(parts),
        found,
    )


def beginning_of(groups: Iterable[Group], words: str, shared: SharedParts) -> str | None:
    """Return how the identity of every plan begins that measures these groups alone, whatever their noise.

    None where a group reads noisy numbers.
    """
    try:
        found = [_cells(group, shared.flow(group.rows), shared)[1] for group in groups]
    except NoisyInputError:
        return None
    return cells_prefix(_cells_identity(words, found))


def _cells_identity(words: str, cells: Iterable[str]) -> str:
    return digest([words, sorted(cells)])


def family_of(bases: Iterable[str]) -> str:
    """Return the identity of the rows that groups partition; the text of a charge ends with it.

    Where the groups of one charge partition different rows, it belongs to all of them together.
    """
    return digest(sorted(set(bases)))


@remembered(_MAX_READ_SIGNATURES)
def views_in(question: str) -> tuple[ViewSignature | None, ...]:
    """Return what the groups of a stored charge are views of, in its canonical order; nothing for older ones."""
    parts = json.loads(question)
    return tuple(map(signature_from, parts[4])) if len(parts) > _VIEWS_INDEX else ()


def _selects(_text: list[object], placed: MeasuredGroup) -> str:
    """Return the identity of a group that selects a bound; its noise is in its own text."""
    return digest([placed.cells, placed.quantities])


def _group(
    plan: GroupPlan, place: int, selections: dict[str, str], flow: CanonicalFlow, shared: SharedParts
) -> tuple[list[object], MeasuredGroup]:
    order, cells = _cells(plan.group, flow, shared)
    measured = [(one.name, *_measurement(one, plan, flow, selections, shared)) for one in plan.measured]
    measured += [
        (one.name, digest([flow.data(one.quantity), one.weight]), _choice(one.mechanism, flow)) for one in plan.chosen
    ]
    columns = _columns_in_order(measured)
    text = [cells, flow.data(plan.selection), [[quantity, noise] for _, quantity, noise in columns]]
    names, quantities = tuple(name for name, _, _ in columns), tuple(quantity for _, quantity, _ in columns)
    return text, MeasuredGroup(place, order, names, cells, quantities)


def _cells(group: Group, flow: CanonicalFlow, shared: SharedParts) -> tuple[tuple[int, ...], str]:
    """Return the places of the keys in their canonical order, and the identity of the rows with their cells."""
    keys = _in_order(enumerate(shared.key(key, flow) for key in group.keys), lambda key: key[1])
    order = tuple(at for at, _ in keys)
    combinations = None
    if group.combinations is not None:
        listed = ([flow.data(cell[at]) for at in order] for cell in group.combinations)
        combinations = digest(_in_order(listed, lambda cell: cell))
    return order, shared.cells(group, [key for _, key in keys], combinations, flow)


def _key(key: Key, flow: CanonicalFlow) -> str:
    return digest(
        [
            flow.data(key.scalar),
            None if key.cells is None else _cells_data(key.cells, tuple(map(type, key.cells))),
            key.has_remainder,
            *(["null"] if key.null_is_apart else []),
        ]
    )


@lru_cache(maxsize=16)
def _cells_data(cells: tuple[Cell, ...], _kinds: tuple[type, ...]) -> list[object]:
    """Return the cells of a key as data, in one order. Their types are arguments because 1 equals True."""
    return _in_order(map(constant_data, cells), lambda cell: cell)


def _measurement(
    one: PlannedMeasurement, plan: GroupPlan, flow: CanonicalFlow, selections: dict[str, str], shared: SharedParts
) -> tuple[str, object]:
    bound: object = None
    if one.bound is not None:
        bound = [
            flow.data(
                (
                    one.bound.thresholds,
                    one.bound.weight,
                    one.bound.max_contribution,
                    one.bound.bounds_rows,
                    one.bound.rank,
                    one.bound.sensitivities,
                )
            ),
            selections.get(one.bound.selection_label, ""),
        ]
    selecting = one.name == plan.selecting_measurement
    known = shared.quantity(one, selecting, flow) if bound is None else _quantity(one, bound, selecting, flow)
    return known, shared.noise(one.mechanism, flow)


def _noise(mechanism: Laplace | Gaussian | MaxNormPart, flow: CanonicalFlow) -> object:
    if not isinstance(mechanism, MaxNormPart):
        return flow.data(mechanism)
    joint = mechanism.joint  # its law does not depend on the order of the sides
    told = flow.data((joint.sensitivity, joint.epsilon, joint.neighbours))
    return ["MaxNorm", joint.sides[mechanism.place], sorted(joint.sides), told]


def _quantity(one: PlannedMeasurement, bound: object, selecting: bool, flow: CanonicalFlow) -> str:
    return digest([flow.data(one.quantity), flow.data(one.sensitivity), bound, selecting])


def _choice(mechanism: Choosing, flow: CanonicalFlow) -> object:
    """Return how something is chosen; ends that were chosen by another rule are good for other levels."""
    rule = ["ends", str(ENDS_FAILURE)] if isinstance(mechanism, Quantiles) and mechanism.ends else []
    return [flow.data(mechanism), *rule]


def _columns_in_order(columns: list[tuple[str, str, object]]) -> list[tuple[str, str, object]]:
    """Return measurements by what they measure, then by their noise. Digests are as long as each other."""
    if len({quantity for _, quantity, _ in columns}) == len(columns):
        return sorted(columns, key=lambda column: column[1])
    return _in_order(columns, lambda column: column[1:])


def _in_order(things: Iterable[Placed], text: Callable[[Placed], object]) -> list[Placed]:
    found = list(things)
    return sorted(found, key=lambda thing: json.dumps(text(thing))) if len(found) > 1 else found
