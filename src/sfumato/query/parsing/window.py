"""Window functions are gathered into the columns that a Window adds to its rows; the same one written twice is one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from sfumato.errors import excerpt
from sfumato.query.expression import Column, Expression, Literal
from sfumato.query.functions import Aggregation
from sfumato.query.parsing.aggregate import is_aggregate, read_measure
from sfumato.query.parsing.pairs import ReadExpression
from sfumato.query.parsing.reading import ParseContext, name_of
from sfumato.query.relation import Over, SortKey
from sfumato.query.resolve import convert_implicitly, to_common_type
from sfumato.query.types import Interval, Type
from sfumato.query.windows import (
    NUMBERING,
    PLACED,
    SHIFTS,
    UP_TO_CURRENT_ROW,
    WHOLE_PARTITION,
    WindowCall,
    WindowFrame,
    WindowFunction,
)

WINDOW_NAMES: Mapping[str, WindowFunction] = {str(function): function for function in WindowFunction}
_MAX_FRAME_ROWS = 1_000_000
_OVER_FRAMES = frozenset(
    {Aggregation.COUNT, Aggregation.SUM, Aggregation.AVG, Aggregation.MIN, Aggregation.MAX}
    | {Aggregation.VAR_POP, Aggregation.VAR_SAMP, Aggregation.STDDEV_POP, Aggregation.STDDEV_SAMP}
)
"""The aggregates that may stand before OVER."""
_DAY_MICROSECONDS = 86_400_000_000
_TAKES = {WindowFunction.NTILE: (1, 1), WindowFunction.NTH_VALUE: (2, 2)} | dict.fromkeys(SHIFTS, (1, 3))
_TAKES |= dict.fromkeys(PLACED - {WindowFunction.NTH_VALUE}, (1, 1))


@dataclass(frozen=True, slots=True)
class WindowReader:
    """How the parts of a window are read: its arguments, its FILTER, its sort keys."""

    argument: ReadExpression
    where: ReadExpression
    order: Callable[[exp.Expr], SortKey]


class GatheredWindows:
    """The window functions of one SELECT, in the order in which the text needs them."""

    def __init__(self, named: Mapping[str, exp.Expr]) -> None:
        self.label = ""
        self.named = named
        self.used: set[str] = set()
        self.found: list[Over] = []
        self._names: dict[Over, Over] = {}
        self.nodes: list[exp.Expr] = []

    def gather(self, node: exp.Expr, reading: ParseContext, reader: WindowReader) -> Expression:
        """Return the column that will hold what a window function says of a row."""
        over = self._over(node, reading, reader)
        same = self._names.get(over)
        if same is None:
            same = self._names[over] = replace(over, name=f"w{len(self.found) + 1}")
            self.found.append(same)
            self.nodes.append(node)
        self.label = self.label or reading.label("window")
        return Column(self.label, same.name, same.type, over.at, same.number)

    def check_used(self, reading: ParseContext) -> None:
        """Refuse a window that nothing uses: nothing is accepted unread."""
        for name, node in self.named.items():
            if name not in self.used:
                raise reading.place(node).bad(
                    f"nothing uses the window {excerpt(name)}.", "It would not be read.", "Use it, or remove it."
                )

    def _over(self, node: exp.Expr, reading: ParseContext, reader: WindowReader) -> Over:
        reading.only(node, "this", "partition_by", "order", "spec", "alias", "over")
        place, definition = reading.place(node), self._definition(node, reading)
        partition = tuple(dict.fromkeys(map(reader.argument, definition.partition)))
        order = tuple(map(reader.order, definition.order))
        frame = _frame(definition.spec, order, reading, reader) if definition.spec is not None else None
        frame = frame or (UP_TO_CURRENT_ROW if order else WHOLE_PARTITION)
        called = node.this
        if isinstance(called, exp.IgnoreNulls | exp.RespectNulls):
            reading.refuse(called)
        if isinstance(called, exp.Filter) or is_aggregate(_window_name(called)):
            measure = read_measure(called, reading, reader.argument, reader.where)
            if measure.aggregate.distinct:
                raise place.unsupported(
                    "DISTINCT is not supported in a window.",
                    "PostgreSQL has no such window either.",
                    "Group by the values in a subquery first.",
                )
            if measure.aggregate.function not in _OVER_FRAMES:
                raise place.unsupported(
                    f"{measure.aggregate.function.upper()} is not supported in a window.",
                    "It is computed of groups, not of frames.",
                    "Compute it by GROUP BY in a subquery, and join that.",
                )
            return Over("", measure.aggregate, partition, order, frame, measure.type, place.at)
        function = WINDOW_NAMES.get(_window_name(called))
        if function is None or not isinstance(called, exp.Anonymous):
            raise place.bad(
                "this is not a window function.",
                "Before OVER stands an aggregate, or one of "
                f"{', '.join(sorted(name.upper() for name in WINDOW_NAMES))}.",
                "Use one of these, or leave OVER out.",
            )
        reading.only(called, "this", "expressions")
        arguments, count = _arguments(function, called, reading, reader)
        if function not in PLACED:
            frame = WHOLE_PARTITION
        elif not frame.rows and not _is_deterministic(frame, function):
            raise place.unsupported(
                f"{function.upper()} is not supported inside this RANGE.",
                "The order of equal rows is not defined there.",
                "Use ROWS BETWEEN.",
            )
        called_with = WindowCall(function, arguments, count)
        return Over("", called_with, partition, order, frame, _result_type(function, arguments), place.at)

    def _definition(self, node: exp.Expr, reading: ParseContext) -> "_Definition":
        """Return the definition in OVER, merged with the named window that it continues."""
        order, spec, alias = node.args.get("order"), node.args.get("spec"), node.args.get("alias")
        partition = list(node.args.get("partition_by") or [])
        if order is not None:
            reading.only(order, "expressions")
        own = _Definition(partition, [] if order is None else list(order.expressions), spec)
        if alias is None:
            return own
        named = self.named.get(str(name_of(alias)))
        if named is None or named is node:
            known = sorted(self.named)
            raise reading.place(node).unknown("window", str(name_of(alias)), known, "WINDOW does not define it.")
        reading.only(named, "this", "partition_by", "order", "spec", "alias")
        self.used.add(str(name_of(alias)))
        others = GatheredWindows({name: window for name, window in self.named.items() if window is not named})
        before = others._definition(named, reading)
        self.used |= others.used
        if own.partition or (own.order and before.order):
            raise reading.place(node).bad(
                f"the window {name_of(alias)} is changed here.",
                "A named window cannot be changed where it is used.",
                "Write the whole window into OVER (…).",
            )
        return _Definition(before.partition, own.order or before.order, own.spec or before.spec)


@dataclass(frozen=True, slots=True)
class _Definition:
    partition: list[exp.Expr]
    order: list[exp.Expr]
    spec: exp.Expr | None


def _window_name(node: exp.Expr) -> str:
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


def _is_deterministic(frame: WindowFrame, function: WindowFunction) -> bool:
    """Whether a RANGE has no distances, and which row comes first or last in it is settled."""
    if frame.start not in (None, 0) or frame.end not in (None, 0):
        return False
    return function is not WindowFunction.NTH_VALUE or frame.start is None


def _arguments(
    function: WindowFunction, called: exp.Expr, reading: ParseContext, reader: WindowReader
) -> tuple[tuple[Expression, ...], int]:
    """Return the values that a function needs of each row, and the number that it takes."""
    place, nodes = reading.place(called), called.expressions
    least, most = _TAKES.get(function, (0, 0))
    if not least <= len(nodes) <= most:
        raise place.bad(
            f"{function.upper()} was given {len(nodes)} arguments.",
            f"It takes {least}{f' to {most}' if most > least else ''}.",
            "Add or remove arguments.",
        )
    if function is WindowFunction.NTILE:
        return (), _frame_distance(nodes[0], 1, reading, reader)
    values = [reader.argument(node) for node in (*nodes[:1], *nodes[2:])]
    fitted = [convert_implicitly(value, Type.TEXT, place) if value.type is Type.NULL else value for value in values[:1]]
    if len(values) > 1:
        fitted = to_common_type(values, place)
        if isinstance(fitted[1], Literal) and fitted[1].value is None:
            fitted = fitted[:1]
    count = _frame_distance(nodes[1], 0 if function in SHIFTS else 1, reading, reader) if len(nodes) > 1 else 1
    return tuple(fitted), count


def _result_type(function: WindowFunction, arguments: tuple[Expression, ...]) -> Type:
    if function in NUMBERING:
        return Type.INTEGER
    return arguments[0].type if arguments else Type.DECIMAL


def _frame_distance(node: exp.Expr, least: int, reading: ParseContext, reader: WindowReader) -> int:
    value = reader.argument(node)
    number = value.value if isinstance(value, Literal) and value.type is Type.INTEGER else None
    if isinstance(number, int) and least <= number <= _MAX_FRAME_ROWS:
        return number
    raise reading.place(node).unsupported(
        f"a whole number from {least} to {_MAX_FRAME_ROWS:,} has to stand here.",
        "It may not differ from row to row.",
        "Write the number itself.",
    )


def _frame(spec: exp.Expr, order: tuple[SortKey, ...], reading: ParseContext, reader: WindowReader) -> WindowFrame:
    reading.only(spec, "kind", "start", "start_side", "end", "end_side")
    kind, place = str(spec.args.get("kind") or "").upper(), reading.place(spec)
    if kind not in {"ROWS", "RANGE"}:
        raise place.unsupported(f"{kind} is not supported.", "Frames are of rows or ranges.", "Use ROWS or RANGE.")
    rows = kind == "ROWS"
    ends = [
        _distance(spec.args.get(part), str(spec.args.get(f"{part}_side") or "").upper(), rows, order, reading, reader)
        for part in ("start", "end")
    ]
    start, end = ends[0], ends[1] if spec.args.get("end") else (Fraction(0), "")
    if (start[1] == "FOLLOWING" and start[0] is None) or (end[1] == "PRECEDING" and end[0] is None):
        raise place.bad("the frame is reversed.", "It ends before it begins.", "Exchange its ends.")
    if start[0] is not None and end[0] is not None and start[0] > end[0]:
        raise place.bad("the frame is reversed.", "It ends before it begins.", "Exchange its ends.")
    frame = WindowFrame(rows, start[0], end[0])
    offsets = not rows and any(distance not in (None, 0) for distance in (frame.start, frame.end))
    if offsets and len(order) != 1:
        raise place.bad(
            "RANGE with a distance needs one sort key.", "It is measured there.", "Give it one, or use ROWS."
        )
    return WHOLE_PARTITION if frame.whole else frame


def _distance(
    end: object, side: str, rows: bool, order: tuple[SortKey, ...], reading: ParseContext, reader: WindowReader
) -> tuple[Fraction | None, str]:
    """Return how far a frame reaches before (below 0) or behind the row; None is without end."""
    word = str(end or "CURRENT ROW").upper() if not isinstance(end, exp.Expr) else ""
    if word == "UNBOUNDED":
        return None, side
    if word == "CURRENT ROW":
        return Fraction(0), side
    if not isinstance(end, exp.Expr):
        raise AssertionError("a frame ends at a word or an expression")
    place, value = reading.place(end), reader.argument(end)
    steps = _steps(value.value, order) if isinstance(value, Literal) else None
    if steps is None or steps < 0 or (rows and (steps.denominator != 1 or steps > _MAX_FRAME_ROWS)):
        raise place.unsupported(
            "this distance is not supported.",
            "A frame of ROWS takes whole numbers; a RANGE takes numbers, or for times an INTERVAL of days or less.",
            "Write it as a number, for example 3 PRECEDING.",
        )
    return -steps if side == "PRECEDING" else steps, side


def _steps(value: object, order: tuple[SortKey, ...]) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, int | Fraction | Interval):
        return None
    if not isinstance(value, Interval):
        return Fraction(value)
    if value.months or not order:
        return None
    microseconds = value.days * _DAY_MICROSECONDS + value.microseconds
    return (
        Fraction(microseconds, _DAY_MICROSECONDS) if order[0].expression.type is Type.DATE else Fraction(microseconds)
    )
