"""FROM: relations of the catalogue, queries, VALUES and functions, joined row by row."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sfumato.server.wire.pg_catalog.compiled import ColumnScope, Compiled, Execution, Frames, Row, ScopeColumn

Rows = Callable[[Execution, Frames], list[Row]]


@dataclass(frozen=True, slots=True)
class RowSource:
    """What gives rows: its columns, how, and what it reads of the rows to its left (depth 0) and around."""

    fields: tuple[ScopeColumn, ...]
    rows: Rows
    uses: frozenset[tuple[int, int]] = frozenset()

    @property
    def is_lateral(self) -> bool:
        """Whether it differs from row to row of what stands left of it."""
        return any(depth == 0 for depth, _ in self.uses)


@dataclass(frozen=True, slots=True)
class Condition:
    """A part of ON or WHERE; an equality also has its two sides, to look up instead of trying."""

    whole: Compiled
    sides: tuple[Compiled, Compiled] | None = None

    @property
    def reach(self) -> int:
        """How many columns of the row it needs."""
        return max((at + 1 for depth, at in self.whole.uses if depth == 0), default=0)

    def lookup(self, start: int, end: int) -> tuple[Compiled, Compiled] | None:
        """Return the sides as (left of `start`, from `start` on) where they are so; None otherwise."""
        if self.sides is None:
            return None
        for left, right in (self.sides, self.sides[::-1]):
            places = [at for depth, at in right.uses if depth == 0]
            others = [at for depth, at in left.uses if depth == 0]
            if places and min(places) >= start and max(places) < end and all(at < start for at in others):
                return left, right
        return None


@dataclass(slots=True)
class CatalogueJoin:
    """One step: the next source, how it is joined, and the conditions on which."""

    source: RowSource
    kind: str
    """INNER, LEFT, RIGHT or FULL."""
    start: int
    on: list[Condition] = field(default_factory=list)
    after: list[Condition] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The width of a row after it."""
        return self.start + len(self.source.fields)


def place(conditions: Sequence[Condition], joins: Sequence[CatalogueJoin]) -> list[Condition]:
    """Give each condition of WHERE to the first step that has all it needs; return those that nobody took."""
    if any(join.kind in ("RIGHT", "FULL") for join in joins):
        return list(conditions)
    left = []
    for condition in conditions:
        step = next((join for join in joins if condition.reach <= join.end), None)
        if step is None:
            left.append(condition)
        elif step.kind == "INNER":
            step.on.append(condition)
        else:
            step.after.append(condition)
    return left


def joined_rows(joins: Sequence[CatalogueJoin], run: Execution, frames: Frames) -> list[Row]:
    """Return the rows of a FROM clause; without one there is a single empty row."""
    rows: list[Row] = [()]
    for join in joins:
        rows = _step(join, rows, run, frames)
    return rows


def _step(join: CatalogueJoin, rows: list[Row], run: Execution, frames: Frames) -> list[Row]:
    source, width = join.source, len(join.source.fields)
    pairs = [pair for condition in join.on if (pair := condition.lookup(join.start, join.end)) is not None]
    fixed: list[Row] | None = None if source.is_lateral else source.rows(run, ((), *frames))
    index = _index(pairs, fixed, join.start, run, frames) if pairs and fixed is not None else None
    found: list[Row] = []
    met: set[int] = set()
    for row in run.each(rows):
        if index is not None:
            key = tuple(run.read(left.run(run, ((*row, *(None,) * width), *frames))) for left, _ in pairs)
            candidates: Iterable[tuple[int, Row]] = [] if None in key else index.get(key, [])
        else:
            candidates = enumerate(fixed if fixed is not None else source.rows(run, (row, *frames)))
        before = len(found)
        for at, right in run.each(candidates):
            run.spend(join.end // 16)
            whole = row + right
            if all(one.whole.run(run, (whole, *frames)) is True for one in join.on):
                run.room(1, join.end)
                found.append(whole)
                met.add(at)
        if len(found) == before and join.kind in ("LEFT", "FULL"):
            run.room(1, join.end)
            found.append(row + (None,) * width)
    if join.kind in ("RIGHT", "FULL") and fixed is not None:
        run.room(len(fixed), join.end)
        found += [(None,) * join.start + right for at, right in enumerate(fixed) if at not in met]
    if join.after:
        found = [
            row for row in run.each(found) if all(one.whole.run(run, (row, *frames)) is True for one in join.after)
        ]
    return found


_Index = dict[tuple[Any, ...], list[tuple[int, Row]]]


def _index(
    pairs: Sequence[tuple[Compiled, Compiled]], rows: list[Row], start: int, run: Execution, frames: Frames
) -> _Index:
    index: _Index = {}
    for at, row in enumerate(run.each(rows)):
        padded = ((None,) * start + row, *frames)
        key = tuple(run.read(right.run(run, padded)) for _, right in pairs)
        run.room(1, len(pairs))
        if None not in key and not any(isinstance(part, list) for part in key):
            index.setdefault(key, []).append((at, row))
    return index


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """Return the operands of AND."""
    found: list[exp.Expr] = []
    waiting = [node] if node is not None else []
    while waiting:
        part = waiting.pop()
        while isinstance(part, exp.Paren):
            part = part.this
        if isinstance(part, exp.And):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found


def scope_of(joins: Sequence[CatalogueJoin], parent: ColumnScope | None) -> ColumnScope:
    """Return the columns of all steps."""
    return ColumnScope(tuple(field for join in joins for field in join.source.fields), parent)
