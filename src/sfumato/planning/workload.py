"""Several questions as one: shared parts are measured once, all of it is one event, and each has its own outcome.

Proof: proofs/one_table.md, (5)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sfumato.analysis.private_query import Group, PrivateQuery, RequestedAggregate
from sfumato.errors import BadParameter, quote_value
from sfumato.exact import positive, typed_rational
from sfumato.language.rel_nodes import InputNode, noisy_tables
from sfumato.language.scalar import Scalar, address, column
from sfumato.planning.notes.plan_notes import with_notes
from sfumato.planning.plan import Plan
from sfumato.query.aggregate import Aggregate
from sfumato.query.rebuilding import rebuild_fields

ColumnKey = tuple[str, str]
MAX_QUERIES_PER_WORKLOAD = 100
"""Maximum number of queries in one `ask_all`."""
MAX_WEIGHT_RATIO = 1000
"""The most that one question of a workload counts beside another."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The groups of several questions, each group once, and what every question computes from them."""

    groups: tuple[Group, ...]
    questions: tuple[PrivateQuery, ...]
    """In their order; the outcomes read the groups of the workload."""
    labels: tuple[frozenset[str], ...]
    """The groups that each question reads."""

    @property
    def combined_query(self) -> PrivateQuery:
        """All of it as one question, for its price: the outcome is the first one's."""
        return replace(self.questions[0], groups=self.groups)

    def group_weights(self, weights: Sequence[Fraction]) -> tuple[tuple[str, Fraction], ...]:
        """Return how often each group counts: as often as the questions that read it; nothing where all count once."""
        if not weights:
            return ()
        pairs = list(zip(self.labels, weights, strict=True))
        return tuple(
            (group.label, sum((weight for read, weight in pairs if group.label in read), Fraction(0)))
            for group in self.groups
        )

    def plans(self, plan: Plan) -> tuple[Plan, ...]:
        """Return the plan of each question, which are the one plan of all with another outcome."""
        return tuple(
            with_notes(replace(plan, private=replace(question, groups=self.groups))) for question in self.questions
        )


def workload_of(questions: Sequence[PrivateQuery]) -> Workload:
    """Put questions together: groups of the same rows by the same keys become one, with all that was asked of them."""
    groups: list[Group] = []
    renamed: list[dict[ColumnKey, ColumnKey]] = []
    for question in questions:
        names: dict[ColumnKey, ColumnKey] = {}
        for group in question.groups:
            place = next((at for at, known in enumerate(groups) if _is_same(known, group)), len(groups))
            if place == len(groups):
                groups.append(replace(group, label=f"workload {place + 1}", asked=()))
            groups[place], own = _joined(groups[place], group)
            names |= own
        renamed.append(names)
    outcomes = (
        replace(question, groups=(), outcome=_read(question.outcome, _with_repeats(question, names)))
        for question, names in zip(questions, renamed, strict=True)
    )
    labels = (frozenset(label for label, _ in names.values()) for names in renamed)
    return Workload(tuple(groups), tuple(outcomes), tuple(labels))


def parse_questions(texts: object) -> Sequence[str]:
    """Read the texts of questions that are asked together, or refuse them."""
    if isinstance(texts, list | tuple) and 1 <= len(texts) <= MAX_QUERIES_PER_WORKLOAD:
        read = [text for text in texts if isinstance(text, str)]
        if len(read) == len(texts):
            return read
    raise BadParameter(
        f"{quote_value(texts)} is not a list of questions.",
        f"From 1 to {MAX_QUERIES_PER_WORKLOAD} questions, each a text, are asked together.",
        'Write for example ["SELECT COUNT(*) FROM visits", "SELECT dept, COUNT(*) FROM visits GROUP BY dept"].',
    )


def parse_weights(weights: object, questions: int) -> tuple[Fraction, ...]:
    """Read how much each question counts beside the others; nothing where all count the same.

    >>> parse_weights([1, "2.5"], 2), parse_weights(None, 3)
    ((Fraction(1, 1), Fraction(5, 2)), ())
    """
    if weights is None:
        return ()
    if isinstance(weights, str | bytes) or not isinstance(weights, Sequence) or len(weights) != questions:
        raise BadParameter(
            f"weights are not one number for each of {questions} questions.",
            "They say how much the error of each question counts beside the others.",
            f"Give a list of {questions} numbers, for example {[1] * (questions - 1) + [4]}.",
        )
    found = tuple(positive(typed_rational(weight, "weights"), "weights") for weight in weights)
    if max(found) > MAX_WEIGHT_RATIO * min(found):
        raise BadParameter(
            f"One weight is more than {MAX_WEIGHT_RATIO} times another.",
            "Every question is answered, so none can be left without a part of the price.",
            f"Give weights of which the largest is at most {MAX_WEIGHT_RATIO} times the smallest.",
        )
    return found


def _is_same(known: Group, group: Group) -> bool:
    return [key.scalar for key in known.keys] == [key.scalar for key in group.keys] and replace(
        known, label="", keys=(), asked=()
    ) == replace(group, label="", keys=(), asked=())


def _joined(known: Group, group: Group) -> tuple[Group, dict[ColumnKey, ColumnKey]]:
    """Return the group with what another asks of the same cells, and where each of its columns is now."""
    asked: dict[Aggregate[Scalar], RequestedAggregate] = {requested.aggregate: requested for requested in known.asked}
    names: dict[ColumnKey, ColumnKey] = {}
    for requested in group.asked:
        kept = asked.setdefault(requested.aggregate, replace(requested, name=f"a{len(asked) + 1}"))
        names[group.label, requested.name] = (known.label, kept.name)
    for key, same in zip(group.keys, known.keys, strict=True):
        names[group.label, key.name] = (known.label, same.name)
    return replace(known, asked=tuple(asked.values())), names


def _with_repeats(question: PrivateQuery, names: Mapping[ColumnKey, ColumnKey]) -> dict[ColumnKey, ColumnKey]:
    """Return where the columns are also of tables that a question uses in several places: each keeps its label."""
    again = {
        (given.label, name): (given.label, names[given.table, name][1])
        for given in noisy_tables(question.outcome)
        if given.of is not None
        for name, _ in given.columns
    }
    return {**names, **again}


def _read(thing: Any, names: Mapping[ColumnKey, ColumnKey]) -> Any:
    """Return an outcome that reads the columns of a workload's groups in place of its own question's."""
    match thing:
        case Scalar() if (at := address(thing)) is not None:
            return column(*names.get(at, at), thing.facts)
        case InputNode(label, columns, None, of) if columns and (label, columns[0][0]) in names:
            moved = tuple((names[label, name][1], facts) for name, facts in columns)
            table = None if of is None else names[of, columns[0][0]][0]
            return InputNode(names[label, columns[0][0]][0], moved, None, table)
    return rebuild_fields(thing, lambda _, part: _read(part, names))
