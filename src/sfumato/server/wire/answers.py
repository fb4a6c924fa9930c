"""One statement of a session: first what is known before it runs, then its answer."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from sys import getsizeof
from typing import Any

from sfumato.accounting.loss import percent_up
from sfumato.errors import Refusal
from sfumato.planning.planner import NO_PRICE
from sfumato.query.describe import QueryDescription
from sfumato.query.types import NUMBERS, Type
from sfumato.release.release import Release
from sfumato.release.thin_answers import warnings_of
from sfumato.server.gate import Caller, Gateway
from sfumato.server.quota import Holding
from sfumato.server.wire import oids
from sfumato.server.wire.frames import command_complete, data_row, notice_frame
from sfumato.server.wire.memory import SessionMemory
from sfumato.server.wire.oids import Column
from sfumato.server.wire.pg_catalog.catalogue import Catalogue
from sfumato.server.wire.pg_catalog.compiled import Execution
from sfumato.server.wire.pg_catalog.session_facts import SessionFacts
from sfumato.server.wire.settings import BUDGET, Settings
from sfumato.server.wire.sqlstates import Reported, WireError, reported, unsupported
from sfumato.server.wire.statements import (
    EmptyStatement,
    ExecutePrepared,
    Explain,
    SelectStatement,
    ShowSetting,
    Statement,
    read_statement,
    split,
)
from sfumato.server.wire.waiting import StatementWait

_PARAMETER = re.compile(r"[1-9]\d{0,4}")
MOST_PARAMETERS = 1000
_POINTER_BYTES = 8
_DEBUG = ("debug", "debug1", "debug2", "debug3", "debug4", "debug5")
"""A place in a list."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows as the messages that carry them, and what is said after them; `count` adds how many were shown."""

    columns: tuple[Column, ...]
    messages: Sequence[bytes] = field(repr=False)
    holding: Holding | None = field(default=None, repr=False)
    """The memory of the messages."""
    tag: str = "SELECT"
    count: bool = True
    notices: tuple[str, ...] = ()
    """What is said of an answer that shows nothing, or only noise."""

    def completion(self, shown: int) -> bytes:
        """Return the notices and the end of the answer, after this number of rows."""
        notices = b"".join(notice_frame(Reported("NOTICE", "00000", text)) for text in self.notices)
        return notices + command_complete(f"{self.tag} {shown}" if self.count else self.tag)


@dataclass(frozen=True, slots=True)
class ReadyStatement:
    """A statement before it runs: its parameters and columns have types; nothing was read or charged."""

    statement: Statement
    parameters: tuple[int, ...] = ()
    columns: tuple[Column, ...] | None = None
    outline: QueryDescription | None = field(default=None, repr=False)
    is_catalogue: bool = False
    """Whether the catalogue answers it. The catalogue keeps the last plans, within a limit; here is none."""
    declared: tuple[tuple[str, int], ...] = ()
    """The parameters whose types the client has named."""
    intervals: Fraction | None = None
    offset: int = 0
    """Where the statement begins in the text that was sent."""
    text_bytes: int = 0
    """The memory of that text."""

    @property
    def size(self) -> int:
        """The memory of a prepared statement, in bytes, as an upper bound."""
        names = sum(getsizeof(column.name) for column in self.columns or ())
        described = len(self.columns or ()) * (2 if self.outline is None else 4) + len(self.parameters) * 2
        return 2000 + 2 * self.text_bytes + 2 * names + 150 * (described + len(self.declared))


class Answering:
    """Prepares and runs the statements of one session that need the catalogue or the dataset."""

    def __init__(
        self,
        gate: Gateway,
        caller: Caller,
        catalogue: Catalogue,
        settings: Settings,
        facts: SessionFacts,
        memory: SessionMemory,
        wait: StatementWait,
    ) -> None:
        self._gate = gate
        self._caller = caller
        self._catalogue = catalogue
        self._settings = settings
        self._facts = facts
        self._memory = memory
        self._wait = wait

    async def prepare(self, statement: Statement, declared: Sequence[int] = ()) -> ReadyStatement:
        """Return what is known of a statement before it runs; this is free, and reads no data."""
        match statement:
            case SelectStatement(text):
                return await self._question(statement, text, declared)
            case Explain(text):
                inner = await self._question(SelectStatement(text), text, declared)
                lines = (Column("QUERY PLAN", oids.TEXT),)
                return replace(inner, statement=statement, columns=lines, intervals=None)
            case ShowSetting("all"):
                shown = tuple(Column(name, oids.TEXT) for name in ("name", "setting", "description"))
                return ReadyStatement(statement, (), shown)
            case ShowSetting(name):
                self._settings.get(name)
                return ReadyStatement(statement, (), (Column(name, oids.TEXT),))
            case ExecutePrepared():
                raise unsupported("EXECUTE cannot itself be prepared.", "Bind the statement by the protocol.")
        return ReadyStatement(statement)

    async def run(self, prepared: ReadyStatement, values: Sequence[object], formats: Sequence[int]) -> Answer:
        """Return the answer; a question about people is charged here, and nowhere else."""
        given = {str(number): value for number, value in enumerate(values, 1)}
        match prepared.statement:
            case ShowSetting("all"):
                listed = [(name, value, "") for name, value in self._settings.all()]
                return await self._sent(prepared, lambda: listed, formats, "SHOW")
            case ShowSetting(name):
                shown = [(await self._shown(name),)]
                return await self._sent(prepared, lambda: shown, formats, "SHOW")
            case Explain(sql):
                lines = await self._explained(prepared, sql, given)
                return await self._sent(prepared, lambda: lines, formats, "EXPLAIN")
        if not isinstance(prepared.statement, SelectStatement):
            raise AssertionError("only a question has an answer")
        sql, outline = prepared.statement.sql, prepared.outline
        if prepared.is_catalogue:
            async with self._catalogue.turns:
                stopped = self._is_stopped()
                return await self._sent(prepared, lambda: self._catalogued(sql, prepared, given, stopped), formats)
        if outline is None:
            raise AssertionError("a question about data has an outline")
        level = prepared.intervals

        def write(release: Release) -> Answer:
            rows = zip(*release.values, strict=True) if level is None else with_intervals(release, outline, level)
            return replace(self._written(prepared, rows, formats), notices=self._notices(release))

        return await self._asked(sql, {name: given[name] for name in outline.parameters}, write)

    def _notices(self, release: Release) -> tuple[str, ...]:
        quiet = self._settings.get("client_min_messages") not in ("notice", "info", "log", *_DEBUG)
        return () if quiet else warnings_of(release.notes)

    async def _sent(
        self,
        prepared: ReadyStatement,
        rows: Callable[[], Iterable[Sequence[object]]],
        formats: Sequence[int],
        tag: str = "SELECT",
    ) -> Answer:
        """Compute rows and write them as messages, in a worker thread: the event loop only sends them."""
        return await self._gate.work(self._caller, lambda: self._written(prepared, rows(), formats, tag))

    def _written(
        self,
        prepared: ReadyStatement,
        rows: Iterable[Sequence[object]],
        formats: Sequence[int],
        tag: str = "SELECT",
    ) -> Answer:
        """Write rows as messages, which are counted as they are made."""
        columns = prepared.columns or ()
        holding = Holding(self._memory, self._caller.account)
        messages: list[bytes] = []
        try:
            for row in rows:
                messages.append(data_row(row, columns, formats))
                holding.add(getsizeof(messages[-1]) + _POINTER_BYTES)
        except BaseException:
            messages.clear()  # an error holds on to this frame until it is told
            holding.release()
            raise
        return Answer(columns, messages, holding, tag, tag == "SELECT")

    def _is_stopped(self) -> Callable[[], bool]:
        """Return what tells the thread of this statement, and of no later one, that it should end."""
        stop, gate = self._wait.stop, self._gate
        return lambda: stop.is_set() or gate.stopping

    def _catalogued(
        self, sql: str, prepared: ReadyStatement, given: Mapping[str, object], stopped: Callable[[], bool]
    ) -> Sequence[Sequence[object]]:
        plan = self._catalogue.plan(sql, dict(prepared.declared))
        if plan is None:
            raise AssertionError("a question about the catalogue stays one")
        return plan.rows(Execution(self._facts, dict(given), stopped))

    def is_stale(self, prepared: ReadyStatement) -> bool:
        """Whether a setting has changed since that gives the answer other columns."""
        return (
            prepared.outline is not None
            and isinstance(prepared.statement, SelectStatement)
            and (prepared.intervals != self._settings.intervals)
        )

    async def constants(self, text: str) -> list[object]:
        """Return the values that stand between the brackets of an EXECUTE."""
        if not text.strip():
            return []

        def compute() -> list[object]:
            plan = self._catalogue.constants(f"SELECT {text}")
            return list(plan.rows(Execution(self._facts, {}, stopped))[0])

        async with self._catalogue.turns:
            stopped = self._is_stopped()
            return await self._gate.work(self._caller, compute)

    def oid_of(self, name: str) -> int:
        """Return the number of a type that a PREPARE names."""
        return self._catalogue.type_named(name)

    async def _question(self, statement: SelectStatement, sql: str, declared: Sequence[int]) -> ReadyStatement:
        types = {str(number): oid for number, oid in enumerate(declared, 1) if oid not in (0, oids.UNKNOWN)}
        plan = await self._gate.work(self._caller, lambda: self._catalogue.plan(sql, types))
        if plan is not None:
            described, named = _described(plan.parameters, declared), tuple(types.items())
            return ReadyStatement(statement, described, plan.columns, None, True, named)
        known = {name: _type_of(oid, name) for name, oid in types.items()}
        database = self._gate.database(self._caller)
        outline = await self._gate.work(self._caller, lambda: database.describe(sql, known))
        for name in outline.parameters:
            if not _PARAMETER.fullmatch(name) or int(name) > MOST_PARAMETERS:
                raise WireError(
                    "42P02", f"there is no parameter {name[:20]}", "Parameters are $1, $2, … here.", "Write $1."
                )
        inferred = {name: oids.OID_OF[type] for name, type in outline.parameters.items()}
        intervals = self._settings.intervals
        columns = columns_of(outline, intervals is not None)
        return ReadyStatement(
            statement, _described(inferred, declared), columns, outline, False, tuple(types.items()), intervals
        )

    async def _asked(self, sql: str, parameters: Mapping[str, object], write: Callable[[Release], Answer]) -> Answer:
        price: dict[str, Any] = self._settings.price()
        try:
            return await self._gate.ask(self._caller, sql, write, parameters=dict(parameters), **price)
        except Refusal as refusal:
            raise in_sql(refusal) from None

    async def _explained(self, prepared: ReadyStatement, sql: str, given: Mapping[str, object]) -> list[tuple[str]]:
        if prepared.is_catalogue:
            return [("price: none; the catalogue contains only what the policy declares",)]
        used = {name: given[name] for name in (prepared.outline.parameters if prepared.outline else {})}
        price: dict[str, Any] = self._settings.price()
        try:
            quote = await self._gate.explain(self._caller, sql, parameters=used, **price)
        except Refusal as refusal:
            raise in_sql(refusal) from None
        return [(line,) for line in str(quote).split("\n")]

    async def _shown(self, name: str) -> str:
        if name != BUDGET:
            return self._settings.get(name)
        budget = await self._gate.budget(self._caller)
        used = percent_up(budget.used)
        return f"used: {used}; total: {budget.total}; spent: {budget.spent}; remaining: {budget.remaining}"


def in_sql(refusal: Refusal) -> Refusal | WireError:
    """Return a refusal with its remedy in SQL's language, where it is about the price."""
    if refusal.what != NO_PRICE:
        return refusal
    return WireError(
        "22023",
        NO_PRICE,
        refusal.why,
        "SET sfumato.share = '1%'; or SET sfumato.epsilon = '0.1'; or SET sfumato.within = 'column = margin'; "
        "the owner can set a default: analysts.NAME.price in the policy",
    )


def columns_of(outline: QueryDescription, intervals: bool) -> tuple[Column, ...]:
    """Return the columns of an answer; with intervals, two more at the end for each number that carries noise."""
    columns = [Column(name, oids.OID_OF[type]) for name, type in outline.columns]
    if intervals:
        for name, type in _barred(outline):
            columns += [Column(f"{name}_{side}", oids.OID_OF[type]) for side in ("low", "high")]
    return tuple(columns)


def _barred(outline: QueryDescription) -> list[tuple[str, Type]]:
    pairs = zip(outline.columns, outline.noisy, strict=True)
    return [(name, type) for (name, type), noisy in pairs if noisy and type in NUMBERS]


def with_intervals(release: Release, outline: QueryDescription, level: Fraction) -> list[tuple[object, ...]]:
    """Return the rows of a release with the ends of their intervals, in the order of `columns_of`."""
    barred = [
        at for at, ((_, type), noisy) in enumerate(zip(outline.columns, outline.noisy, strict=True))
        if noisy and type in NUMBERS
    ]  # fmt: skip
    rows: list[tuple[object, ...]] = []
    for row, ends in zip(zip(*release.values, strict=True), release.intervals(level), strict=True):
        pairs = [ends[release.columns[at]] for at in barred]
        bars = [pair if isinstance(pair, tuple) else (pair, pair) for pair in pairs]
        rows.append((*row, *(end for pair in bars for end in pair)))
    return rows


def one_statement(text: str) -> tuple[int, Statement]:
    """Return the only statement of a text and where it begins, or refuse several."""
    pieces = split(text)
    if len(pieces) > 1:
        raise WireError("42601", "cannot insert multiple commands into a prepared statement")
    if not pieces:
        return 0, EmptyStatement("")
    offset, sql = pieces[0]
    try:
        return offset, read_statement(sql)
    except WireError as error:
        raise placed(error, offset) from None


def placed(error: WireError, offset: int) -> WireError:
    """Return an error about a statement that begins `offset` characters into a text."""
    said = reported(error, "", offset)
    return WireError(said.sqlstate, said.message, said.detail, said.hint, said.position, error.fatal)


def question_of(statement: Statement) -> tuple[str, int]:
    """Return the question inside a statement, and where it begins there."""
    match statement:
        case SelectStatement(sql):
            return sql, 0
        case Explain(sql, offset):
            return sql, offset
    return "", 0


def _type_of(oid: int, name: str) -> Type:
    if oid not in oids.TYPE_OF:
        raise WireError(
            "0A000",
            f"The type of ${name} is not one that a value may have.",
            "A value is an integer, a decimal, a boolean, a date, a timestamp without time zone, or a text.",
            f"Leave out the type of ${name}, or cast it in the text of the query.",
        )
    return oids.TYPE_OF[oid]


def _described(inferred: Mapping[str, int], declared: Sequence[int]) -> tuple[int, ...]:
    """Return the types of $1, $2, …: as declared, else as inferred, else text."""
    most = max([len(declared), *(int(name) for name in inferred)])
    if most > MOST_PARAMETERS:
        raise WireError("54023", f"a statement has at most {MOST_PARAMETERS} parameters")
    given = [*declared, *[0] * (most - len(declared))]
    return tuple(oid or inferred.get(str(number), oids.TEXT) for number, oid in enumerate(given, 1))
