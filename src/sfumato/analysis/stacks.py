"""The rows of two public or noisy relations, one behind the other: every column on one grid.

Proof: proofs/lineage.md §9
"""

from dataclasses import replace

from sfumato.analysis.catalog import Public
from sfumato.analysis.joins import together
from sfumato.analysis.lineage import Analysed, Owned, Visibility
from sfumato.errors import UnsupportedSql, at
from sfumato.language.facts import Facts
from sfumato.language.flow import Item, Show, Stacked
from sfumato.language.numbers import on_one_grid
from sfumato.language.scalar import Scalar, column
from sfumato.query.relation import Stack
from sfumato.query.types import NUMBERS


def stacked(relation: Stack, left: Analysed, right: Analysed, public: Public) -> Analysed:
    """Return the rows of both sides; rows of people are refused."""
    if any(isinstance(side.state, Owned) for side in (left, right)):
        raise UnsupportedSql(
            f"{at(relation.at)}UNION of people's rows is not supported.",
            "A person's rows on both sides would be counted twice.",
            "Ask each part by itself, and put the answers together.",
        )
    sides = together(left, right, relation.at, public)
    projects = (relation.left, relation.right)
    columns = [
        [side.scope[project.label, item.name] for item in project.items]
        for side, project in zip(sides, projects, strict=True)
    ]
    pairs = [_alike(one, other) for one, other in zip(*columns, strict=True)]
    names = [one.name for one in relation.columns]
    shows = [
        Show(side.flow, relation.label, tuple(Item(name, pair[at]) for name, pair in zip(names, pairs, strict=True)))
        for at, side in enumerate(sides)
    ]
    flow = Stacked(shows[0], shows[1], relation.label)
    facts = [_hull(one.facts, other.facts) for one, other in pairs]
    scope = {
        (relation.label, name): column(relation.label, name, known) for name, known in zip(names, facts, strict=True)
    }
    released = Visibility.RELEASED in {left.state, right.state}
    state = Visibility.RELEASED if released else Visibility.PUBLIC
    return Analysed(flow, scope, state, origins={} if released else {relation.label: flow})


def _alike(one: Scalar, other: Scalar) -> tuple[Scalar, Scalar]:
    """Return two columns as one column can hold them."""
    if one.facts.type not in NUMBERS:
        return one, other
    first, second = on_one_grid((one, other))
    return first, second


def _hull(one: Facts, other: Facts) -> Facts:
    """Return what holds for every value of either."""
    longest = None if None in (one.longest, other.longest) else max(one.longest or 0, other.longest or 0)
    return replace(
        one,
        nullable=one.nullable or other.nullable,
        low=min(one.low, other.low),
        high=max(one.high, other.high),
        declared_low=one.declared_low and other.declared_low,
        declared_high=one.declared_high and other.declared_high,
        longest=longest,
    )
