"""One statement of a session: first what is known before it runs, then its answer."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from sys import getsizeof
from typing import Any, TypeVar

from sfumato.accounting.loss import percent_up
from sfumato.errors import Interface, RawRows, Refusal
from sfumato.ledger.budget import renewal_text
from sfumato.planning.planner import NO_PRICE
from sfumato.query.describe import QueryDescription
from sfumato.query.types import NUMBERS, NumberType, Type
from sfumato.release.release import Release
from sfumato.server.gate import Caller, Gateway
from sfumato.server.quota import Holding
from sfumato.server.wire import oids
from sfumato.server.wire.charge_notices import EMPTIED_PREVIEW, charge_notices, cost_text
from sfumato.server.wire.copy_statements import Copy
from sfumato.server.wire.copying import copy_rows
from sfumato.server.wire.cursor_statements import Declare, Direction, Fetch
from sfumato.server.wire.cursors import CursorRow, Cursors
from sfumato.server.wire.explaining import explain_column, explain_rows
from sfumato.server.wire.frames import data_row
from sfumato.server.wire.memory import POINTER_BYTES, SessionMemory
from sfumato.server.wire.oids import Column
from sfumato.server.wire.pg_catalog.catalogue import Catalogue
from sfumato.server.wire.pg_catalog.compiled import Execution
from sfumato.server.wire.pg_catalog.session_facts import SessionFacts
from sfumato.server.wire.pg_catalog.view_references import find_references
from sfumato.server.wire.ready import Answer, ReadyStatement
from sfumato.server.wire.settings import BUDGET, Settings
from sfumato.server.wire.sqlstates import Reported, WireError, reported, stale, unsupported, with_remedy
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
from sfumato.server.wire.temporary_views import TemporaryView, TemporaryViews
from sfumato.server.wire.view_expansion import Expansion
from sfumato.server.wire.view_statements import CreateView, DropView
from sfumato.server.wire.waiting import StatementWait

_PARAMETER = re.compile(r"[1-9]\d{0,4}")
MAX_PARAMETERS = 1000
_TAGS_WITH_COUNT = frozenset({"SELECT", "FETCH", "COPY"})
"""Statements whose tag says how many rows there were."""

T = TypeVar("T")
AnswerRows = Iterable[Sequence[object]]


class Answering:
    """Prepares and runs the statements of one session that need the catalogue or the dataset."""

    def __init__(
        self,
        gate: Gateway,
        caller: Caller,
        catalogue: Callable[[], Catalogue],
        settings: Settings,
        facts: SessionFacts,
        memory: SessionMemory,
        wait: StatementWait,
        cursors: Cursors,
        views: TemporaryViews,
    ) -> None:
        self._gate = gate
        self._caller = caller
        self._current_catalogue = catalogue
        self._settings = settings
        self._facts = facts
        self._memory = memory
        self._wait = wait
        self._cursors = cursors
        self._views = views
        self._viewed: tuple[Catalogue, Mapping[str, TemporaryView], Catalogue] | None = None
        """The catalogue with the views of this session: from which it was made, with which, and itself."""

    @property
    def _catalogue(self) -> Catalogue:
        """The catalogue of the policy in force, with the temporary views of this session; made in a worker thread."""
        base, known = self._current_catalogue(), self._views.known
        if not self._views.has_schema:
            return base
        made = self._viewed
        if made is None or made[0] is not base or made[1] is not known:
            made = self._viewed = (base, known, base.with_views(tuple(known.values())))
        return made[2]

    async def prepare(self, statement: Statement, declared: Sequence[int] = ()) -> ReadyStatement:
        """Return what is known of a statement before it runs; this is free, and reads no data."""
        match statement:
            case SelectStatement(text):
                return await self._question(statement, text, declared)
            case Explain(text, _, form):
                inner = await self._question(SelectStatement(text), text, declared)
                return replace(inner, statement=statement, columns=(explain_column(form),), intervals=None)
            case ShowSetting("all"):
                shown = tuple(Column(name, oids.TEXT) for name in ("name", "setting", "description"))
                return ReadyStatement(statement, (), shown)
            case ShowSetting(name):
                self._settings.get(name)
                return ReadyStatement(statement, (), (Column(name, oids.TEXT),))
            case Declare(_, text) | Copy(text):
                inner = await self._question(SelectStatement(text), text, declared)
                return replace(inner, statement=statement, columns=None, question=inner)
            case Fetch(name):
                cursor = self._cursors.known(name)
                return ReadyStatement(statement, (), cursor.question.columns, is_binary=cursor.declared.binary)
            case ExecutePrepared():
                raise unsupported("EXECUTE cannot itself be prepared.", "Bind the statement by the protocol.")
        return ReadyStatement(statement)

    async def run(self, prepared: ReadyStatement, values: Sequence[object], formats: Sequence[int]) -> Answer:
        """Return the answer; a question about people is charged here, and nowhere else."""
        given = {str(number): value for number, value in enumerate(values, 1)}
        match prepared.statement:
            case ShowSetting("all"):
                listed = [(name, value, "") for name, value in self._settings.all()]
                return await self._send_rows(prepared, lambda: listed, formats, "SHOW")
            case ShowSetting(name):
                shown = [(await self._show_setting(name),)]
                return await self._send_rows(prepared, lambda: shown, formats, "SHOW")
            case Explain(format=form):
                lines = await self._explain(prepared, given, form)
                return await self._send_rows(prepared, lambda: lines, formats, "EXPLAIN")
            case Fetch(name, direction):
                return await self._fetch_rows(name, direction, prepared, formats)
        answer, notices = await self._answer_question(
            prepared, given, lambda rows: self._write_rows(prepared, rows, formats)
        )
        return replace(answer, notices=notices)

    async def _answer_question(
        self, prepared: ReadyStatement, given: Mapping[str, object], write: Callable[[AnswerRows], T]
    ) -> tuple[T, tuple[Reported, ...]]:
        """Ask a question and write its rows, both in a worker thread."""
        if not isinstance(prepared.statement, SelectStatement):
            raise AssertionError("only a question has an answer")
        expansion, outline = prepared.asked, prepared.outline
        if prepared.is_catalogue:
            async with self._current_catalogue().turns:
                stopped = self._is_stopped()
                work = self._gate.work(
                    self._caller, lambda: write(self._answer_from_catalogue(prepared, given, stopped))
                )
                return await work, ()
        number = prepared.policy_number
        while number != self._gate.policies:  # another policy is in force since: columns may have other types
            described = await self._question(prepared.statement, prepared.statement.sql, prepared.parameters)
            expansion, outline, number = described.asked, described.outline, described.policy_number
            if (described.columns, described.parameters) != (prepared.columns, prepared.parameters):
                raise stale()
        if outline is None:
            raise AssertionError("a question about data has an outline")
        level = prepared.intervals
        price: dict[str, Any] = dict(self._settings.price() if prepared.price is None else prepared.price)
        price["parameters"] = {name: given[name] for name in outline.parameters}
        is_told, database = self._settings.wants_notices, self._gate.database(self._caller)

        def render(release: Release) -> tuple[T, tuple[Reported, ...]]:
            rows = zip(*release.values, strict=True) if level is None else with_intervals(release, outline, level)
            told = charge_notices(release, database, expansion.sql, price) if is_told else ()
            told += (EMPTIED_PREVIEW,) if is_told and expansion.is_emptied else ()
            return write(rows), told

        try:
            return await self._gate.ask(self._caller, expansion.sql, render, **price)
        except Refusal as refusal:
            raise expansion.located(in_sql(refusal)) from None

    async def declare(self, prepared: ReadyStatement, values: list[object]) -> None:
        """Open a cursor; its price is the one that is set now."""
        statement, question = prepared.statement, prepared.question
        if not isinstance(statement, Declare) or question is None:
            raise AssertionError("only DECLARE opens a cursor")
        self._cursors.declare(statement, replace(question, price=self._settings.price()), values)

    async def move(self, name: str, direction: Direction) -> tuple[list[CursorRow], tuple[Reported, ...]]:
        """Move a cursor and return the rows passed over; its question is asked when the first rows are needed."""
        cursor, notices = self._cursors.known(name), tuple[Reported, ...]()
        if cursor.needs_rows(direction):
            given = {str(number): value for number, value in enumerate(cursor.values, 1)}
            cursor.rows, notices = await self._answer_question(cursor.question, given, self._cursors.hold)
        return cursor.move(direction), notices

    async def _fetch_rows(
        self, name: str, direction: Direction, prepared: ReadyStatement, formats: Sequence[int]
    ) -> Answer:
        cursor = self._cursors.known(name)
        if cursor.question.columns != prepared.columns:
            raise stale()
        rows, notices = await self.move(name, direction)
        return replace(await self._send_rows(prepared, lambda: rows, formats, "FETCH"), notices=notices)

    async def copy(self, prepared: ReadyStatement, values: Sequence[object]) -> Answer:
        """Return the rows of a COPY as its messages."""
        statement, question = prepared.statement, prepared.question
        if not isinstance(statement, Copy) or question is None:
            raise AssertionError("only COPY copies")
        columns, form = question.columns or (), statement.format
        given = {str(number): value for number, value in enumerate(values, 1)}
        answer, notices = await self._answer_question(
            question, given, lambda rows: self._count_messages(columns, copy_rows(rows, columns, form), "COPY")
        )
        return replace(answer, notices=notices)

    async def _send_rows(
        self,
        prepared: ReadyStatement,
        rows: Callable[[], Iterable[Sequence[object]]],
        formats: Sequence[int],
        tag: str = "SELECT",
    ) -> Answer:
        """Compute rows and write them as messages, in a worker thread: the event loop only sends them."""
        return await self._gate.work(self._caller, lambda: self._write_rows(prepared, rows(), formats, tag))

    def _write_rows(
        self,
        prepared: ReadyStatement,
        rows: Iterable[Sequence[object]],
        formats: Sequence[int],
        tag: str = "SELECT",
    ) -> Answer:
        """Write rows as messages, which are counted as they are made."""
        columns = prepared.columns or ()
        return self._count_messages(columns, (data_row(row, columns, formats) for row in rows), tag)

    def _count_messages(self, columns: tuple[Column, ...], made: Iterable[bytes], tag: str) -> Answer:
        """Count the memory of messages as they are made."""
        holding = Holding(self._memory, self._caller.holder)
        messages: list[bytes] = []
        try:
            for message in made:
                messages.append(message)
                holding.add(getsizeof(message) + POINTER_BYTES)
        except BaseException:
            messages.clear()  # an error holds on to this frame until it is told
            holding.release()
            raise
        return Answer(columns, messages, holding, tag, tag in _TAGS_WITH_COUNT)

    def _is_stopped(self) -> Callable[[], bool]:
        """Return what tells the thread of this statement, and of no later one, that it should end."""
        stop, gate = self._wait.stop, self._gate
        return lambda: stop.is_set() or gate.stopping

    def _answer_from_catalogue(
        self, prepared: ReadyStatement, given: Mapping[str, object], stopped: Callable[[], bool]
    ) -> Sequence[Sequence[object]]:
        plan = self._catalogue.plan(prepared.asked.sql, dict(prepared.declared))
        if plan is None:
            raise AssertionError("a question about the catalogue stays one")
        return plan.rows(Execution(self._facts, dict(given), stopped))

    def is_stale(self, prepared: ReadyStatement) -> bool:
        """Whether a setting or a temporary view has changed since that may give the answer other columns."""
        if prepared.expansion is not None and not self._views.has_all(prepared.expansion.views):
            return True
        if prepared.outline is None or not isinstance(prepared.statement, SelectStatement):
            return False
        empties = self._settings.empties_previews
        is_other_preview = prepared.outline.is_preview if empties else prepared.asked.is_emptied
        return is_other_preview or prepared.intervals != self._settings.intervals

    async def constants(self, text: str) -> list[object]:
        """Return the values that stand between the brackets of an EXECUTE."""
        if not text.strip():
            return []

        def compute() -> list[object]:
            plan = self._catalogue.constants(f"SELECT {text}")
            return list(plan.rows(Execution(self._facts, {}, stopped))[0])

        async with self._current_catalogue().turns:
            stopped = self._is_stopped()
            return await self._gate.work(self._caller, compute)

    def oid_of(self, name: str) -> int:
        """Return the number of a type that a PREPARE names."""
        return self._current_catalogue().type_named(name)

    async def _question(self, statement: SelectStatement, sql: str, declared: Sequence[int]) -> ReadyStatement:
        expansion = await self._expand_views(sql)
        try:
            described = await self._describe_statement(statement, expansion.sql, declared)
            if described.outline is not None and described.outline.is_preview and self._settings.empties_previews:
                expansion = expansion.without_rows()
                described = await self._describe_statement(statement, expansion.sql, declared)
            return replace(described, expansion=expansion)
        except (Refusal, WireError) as error:
            raise expansion.located(error) from None

    async def _expand_views(self, sql: str) -> Expansion:
        """Return a text with its temporary views written out, if they still have the columns that they were made with.

        The rights of the role that asks count for the expanded text.
        """
        if not self._views.known:
            return Expansion(sql)
        expansion = await self._gate.work(self._caller, lambda: self._views.expand(sql))
        for view in self._views.used(expansion):
            if view.policy_number != self._gate.policies:
                columns = await self._view_columns(view.sql)
                view.check_columns(columns)
        return expansion

    async def create_view(self, statement: CreateView) -> None:
        """Keep the question of a view. It is described and not asked: this is free, and reads no data."""
        number, tables = self._gate.policies, self._current_catalogue().shadow.tables
        self._views.check_name(statement, tables)
        columns = await self._view_columns(statement.sql)
        references = await self._gate.work(self._caller, lambda: find_references(statement.sql))
        self._views.create(statement, columns, references, number)

    def drop_views(self, statement: DropView) -> tuple[Reported, ...]:
        """Drop views, and return what is said of those that there are not."""
        return self._views.drop(statement, self._current_catalogue().shadow.tables)

    async def _view_columns(self, sql: str) -> tuple[Column, ...]:
        """Return the columns of the question of a view."""
        alone = await self._question(SelectStatement(sql), sql, ())
        if alone.parameters:
            raise WireError("42P02", "there is no parameter $1", "A view has no parameters.", "Write the value.")
        probe = Expansion(sql).without_rows().sql  # a question may read rows that it may not show
        described = await self._question(SelectStatement(probe), probe, ())
        columns = described.columns or ()
        if described.outline is not None:
            columns = columns_of(described.outline, False)
        return columns

    async def _describe_statement(
        self, statement: SelectStatement, sql: str, declared: Sequence[int]
    ) -> ReadyStatement:
        types = {str(number): oid for number, oid in enumerate(declared, 1) if oid not in (0, oids.UNKNOWN)}
        plan = await self._gate.work(self._caller, lambda: self._catalogue.plan(sql, types))
        if plan is not None:
            described, named = _parameter_types(plan.parameters, declared), tuple(types.items())
            return ReadyStatement(statement, described, plan.columns, None, True, named)
        if self._facts.database != self._gate.policy.name:
            raise _no_tables(self._facts.database, self._gate.policy.name)
        known = {name: _type_of(oids.ELEMENTS.get(oid, oid), name) for name, oid in types.items()}
        arrays = {name for name, oid in types.items() if oid in oids.ELEMENTS}
        database, number = self._gate.database(self._caller), self._gate.policies
        outline = await self._gate.work(self._caller, lambda: database.describe(sql, known, arrays))
        for name in outline.parameters:
            if not _PARAMETER.fullmatch(name) or int(name) > MAX_PARAMETERS:
                raise WireError(
                    "42P02", f"there is no parameter {name[:20]}", "Parameters are $1, $2, … here.", "Write $1."
                )
        inferred = {name: oids.OID_OF[type] for name, type in outline.parameters.items()}
        inferred |= {name: oids.ARRAYS[inferred[name]] for name in outline.arrays}
        intervals = self._settings.intervals
        columns = columns_of(outline, intervals is not None)
        made = statement, _parameter_types(inferred, declared), columns, outline, False, tuple(types.items()), intervals
        return ReadyStatement(*made, policy_number=number)

    async def _explain(self, prepared: ReadyStatement, given: Mapping[str, object], form: str) -> list[tuple[str]]:
        if prepared.is_catalogue:
            return explain_rows(None, ["price: none; the catalogue contains only what the policy declares"], form)
        used = {name: given[name] for name in (prepared.outline.parameters if prepared.outline else {})}
        price: dict[str, Any] = self._settings.price()
        try:
            quote, offer = await self._gate.offer(self._caller, prepared.asked.sql, parameters=used, **price)
        except Refusal as refusal:
            raise prepared.asked.located(in_sql(refusal)) from None
        lines = [] if offer is None else [offer.sentence(f"{offer.setting}; and ask again")]
        return explain_rows(quote.loss, [*str(quote).split("\n"), *lines], form)

    async def _show_setting(self, name: str) -> str:
        if name != BUDGET:
            return self._settings.get(name)
        budget = await self._gate.budget(self._caller)
        used = percent_up(budget.used)
        parts = [f"used: {used}", f"total: {budget.total}", f"spent: {budget.spent}", f"remaining: {budget.remaining}"]
        if budget.every is not None:
            parts.append(f"renews: {renewal_text(budget)}")
        price = self._gate.policy.default_price(self._caller.account)
        if price is not None:
            parts.append(f"a question that names no price {cost_text(price)}")
        return "; ".join([*parts, budget.promise] if budget.promise else parts)


def in_sql(refusal: Refusal) -> Refusal | WireError:
    """Return a refusal with its remedy in SQL's language, where it is about the price."""
    if isinstance(refusal, RawRows) and refusal.what.startswith("A preview of "):
        remedy = f"{refusal.remedy_for(Interface.SQL)} For its columns alone: SET sfumato.preview = 'empty';"
        return WireError("42501", with_remedy(refusal.what, remedy), refusal.why, remedy)
    if refusal.what != NO_PRICE:
        return refusal
    remedy = (
        "SET sfumato.share = '1%'; or SET sfumato.epsilon = '0.1'; or SET sfumato.within = 'column = margin'; "
        "the owner can set a default: analysts.NAME.price in the policy"
    )
    return WireError("22023", with_remedy(NO_PRICE, remedy), refusal.why, remedy)


def columns_of(outline: QueryDescription, intervals: bool) -> tuple[Column, ...]:
    """Return the columns of an answer; with intervals, two more at the end for each number that carries noise."""
    types = zip(outline.columns, outline.numbers, strict=True)
    columns = [Column(name, _column_oid(type, number)) for (name, type), number in types]
    if intervals:
        ends = [columns[at] for at in _noisy_columns(outline)]
        columns += [Column(f"{column.name}_{side}", column.oid) for column in ends for side in ("low", "high")]
    return tuple(columns)


def _column_oid(type: Type, number: NumberType | None) -> int:
    return oids.OID_OF[type] if number is None else oids.NUMBER_OIDS[number]


def _noisy_columns(outline: QueryDescription) -> list[int]:
    """Return where the columns stand that are numbers and carry noise."""
    pairs = enumerate(zip(outline.columns, outline.noisy, strict=True))
    return [at for at, ((_, type), noisy) in pairs if noisy and type in NUMBERS]


def with_intervals(release: Release, outline: QueryDescription, level: Fraction) -> list[tuple[object, ...]]:
    """Return the rows of a release with the ends of their intervals, in the order of `columns_of`."""
    barred = _noisy_columns(outline)
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
        case Explain(sql, offset, _) | Declare(_, sql, offset) | Copy(sql, offset):
            return sql, offset
        case CreateView(sql=sql, offset=offset):
            return sql, offset
    return "", 0


def _no_tables(database: str, served: str) -> WireError:
    """Refuse a question in a database that only lists the others."""
    remedy = f"Connect to {served}."
    return WireError(
        "42P01", with_remedy(f"The database {database} has no tables.", remedy), "It lists others.", remedy
    )


def _type_of(oid: int, name: str) -> Type:
    if oid not in oids.TYPE_OF:
        raise WireError(
            "0A000",
            f"The type of ${name} is not one that a value may have.",
            "A value is an integer, a decimal, a boolean, a date, a timestamp, a text, or an array of these.",
            f"Leave out the type of ${name}, or cast it in the text of the query.",
        )
    return oids.TYPE_OF[oid]


def _parameter_types(inferred: Mapping[str, int], declared: Sequence[int]) -> tuple[int, ...]:
    """Return the types of $1, $2, …: as declared, else as inferred, else text."""
    most = max([len(declared), *(int(name) for name in inferred)])
    if most > MAX_PARAMETERS:
        raise WireError("54023", f"a statement has at most {MAX_PARAMETERS} parameters")
    given = [*declared, *[0] * (most - len(declared))]
    return tuple(oid or inferred.get(str(number), oids.TEXT) for number, oid in enumerate(given, 1))
