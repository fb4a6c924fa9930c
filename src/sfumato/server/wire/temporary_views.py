"""The temporary views of one session: named texts that are written out where a question reads them.

A view holds no rows. Nothing is read or charged when it is made, and no other session sees it. It follows transactions:
what a transaction made or dropped is undone when it is rolled back.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from sys import getsizeof

from sfumato.policy.policy import fold_name
from sfumato.server.quota import Holding
from sfumato.server.wire.memory import SessionMemory
from sfumato.server.wire.oids import Column
from sfumato.server.wire.pg_catalog.relations import relations
from sfumato.server.wire.pg_catalog.view_references import ViewReferences
from sfumato.server.wire.sqlstates import Reported, WireError, too_large
from sfumato.server.wire.view_expansion import Expandable, Expansion, closure, expand
from sfumato.server.wire.view_statements import CreateView, DropView

MAX_VIEWS = 100
"""Maximum number of temporary views of a session."""
MAX_VIEW_CHARS = 200_000
"""Maximum length of the questions of all temporary views of a session, in characters."""
MAX_VIEW_COLUMNS = 1600
"""Maximum number of columns of a view, as in PostgreSQL."""
_FIRST_NUMBER = 500_000
CATALOGUE_BYTES = 2 << 20
"""Memory of the catalogue of a session with views, as an upper bound."""


@dataclass(frozen=True, slots=True)
class TemporaryView:
    """A question with a name, and the columns of its answer."""

    name: str
    sql: str = field(repr=False)
    column_names: tuple[str, ...]
    """The names of all columns, where the statement named some."""
    columns: tuple[Column, ...] = field(repr=False)
    references: ViewReferences = field(repr=False)
    number: int
    """Its number in the catalogue."""
    policy_number: int
    """The number of the policy under which its columns were described."""
    holding: Holding = field(repr=False, compare=False)

    def check_columns(self, described: Sequence[Column]) -> None:
        """Refuse a view whose question has other columns under the policy in force."""
        names = self.column_names or tuple(column.name for column in described)
        now = tuple(Column(name, column.oid) for name, column in zip(names, described, strict=False))
        if len(described) != len(self.columns) or now != self.columns:
            raise WireError(
                "42P16",
                f'view "{self.name}" no longer has the columns that it was made with',
                "The policy has changed.",
                f"DROP VIEW {self.name}; and make it again.",
            )


class TemporaryViews:
    """The temporary views of one session, by name without case."""

    def __init__(self, memory: SessionMemory, account: str) -> None:
        self._hold: Callable[[], Holding] = lambda: Holding(memory, account)
        self.known: Mapping[str, TemporaryView] = {}
        """Those that there are now; every change makes another mapping."""
        self._committed: Mapping[str, TemporaryView] = {}
        self._savepoints: list[tuple[str, Mapping[str, TemporaryView]]] = []
        self._made = 0
        self.catalogue_memory: Holding | None = None

    @property
    def has_schema(self) -> bool:
        """Whether the session has made a view: from then on, it has a schema for temporary objects."""
        return self._made > 0

    def expand(self, text: str) -> Expansion:
        """Return a text with the views that it reads written out."""
        return expand(text, self.known) if self.known else Expansion(text)

    def used(self, expansion: Expansion) -> list[TemporaryView]:
        """Return the views that an expanded text reads."""
        return [self.known[fold_name(view.name)] for view in expansion.views]

    def has_all(self, views: Iterable[Expandable]) -> bool:
        """Whether views are still those that there are."""
        return all(self.known.get(fold_name(view.name)) is view for view in views)

    def check_name(self, statement: CreateView, tables: Collection[str]) -> None:
        """Refuse a name that is taken: by a table, by the catalogue, or by a view that is not replaced."""
        key = fold_name(statement.name)
        if any(key == fold_name(name) for name in tables) or ("pg_catalog", key) in relations():
            raise WireError(
                "42P07",
                f'relation "{statement.name}" already exists',
                "A view cannot hide a table: a question reads the table that it names.",
                "Choose another name.",
            )
        if key in self.known and not statement.replace:
            raise WireError(
                "42P07", f'relation "{statement.name}" already exists', "", "CREATE OR REPLACE TEMPORARY VIEW …"
            )
        if key not in self.known and len(self.known) >= MAX_VIEWS:
            raise too_large("There are too many temporary views.", f"DROP some: a session has at most {MAX_VIEWS}.")
        others = sum(len(view.sql) for other, view in self.known.items() if other != key)
        if others + len(statement.sql) > MAX_VIEW_CHARS:
            raise too_large(
                "The temporary views of this session are too long.",
                f"DROP some: all questions together have at most {MAX_VIEW_CHARS:,} characters.",
            )

    def create(
        self, statement: CreateView, described: Sequence[Column], references: ViewReferences, policy_number: int
    ) -> None:
        """Keep a view whose question has these columns."""
        columns = _view_columns(statement, described)
        key, old = fold_name(statement.name), self.known.get(fold_name(statement.name))
        if old is not None and columns[: len(old.columns)] != old.columns:
            raise WireError(
                "42P16",
                f'cannot replace view "{old.name}": its columns would change',
                "A view keeps its columns when it is replaced; others can follow them.",
                f"DROP VIEW {old.name};",
            )
        if self.catalogue_memory is None:
            catalogue = self._hold()
            catalogue.add(CATALOGUE_BYTES)
            self.catalogue_memory = catalogue
        holding = self._hold()
        names = sum(getsizeof(column.name) for column in columns)
        holding.add(2000 + 2 * getsizeof(statement.sql) + 3 * names + 300 * len(references.read) + 200 * len(columns))
        self._made += 1
        number = _FIRST_NUMBER + self._made if old is None else old.number
        name = statement.name if old is None else old.name
        named = tuple(column.name for column in columns) if statement.columns else ()
        made = TemporaryView(name, statement.sql, named, columns, references, number, policy_number, holding)
        known = {**self.known, key: made}
        closure([key], known)
        self.known = known

    def drop(self, statement: DropView, tables: Collection[str]) -> tuple[Reported, ...]:
        """Drop views, and return what is said of those that there are not."""
        known, notices = dict(self.known), []
        for name in statement.names:
            key = fold_name(name)
            if key in known:
                del known[key]
            elif any(key == fold_name(table) for table in tables):
                raise WireError("42809", f'"{name}" is not a view', "", "Tables are the owner's.")
            elif not statement.if_exists:
                raise WireError("42P01", f'view "{name}" does not exist', "", "DROP VIEW IF EXISTS …")
            else:
                notices.append(Reported("NOTICE", "00000", f'view "{name}" does not exist, skipping'))
        gone = self.known.keys() - known.keys()
        while readers := [key for key, view in known.items() if view.references.keys & gone]:
            if not statement.cascade:
                raise WireError(
                    "2BP01",
                    f'cannot drop view "{self.known[sorted(gone)[0]].name}" because other objects depend on it',
                    f'view "{known[readers[0]].name}" depends on it',
                    "Use DROP ... CASCADE to drop the dependent objects too.",
                )
            gone |= set(readers)
            for key in readers:
                del known[key]
        self.known = known
        return tuple(notices)

    def clear(self) -> None:
        """Drop all views."""
        self.known = {}

    def end(self) -> None:
        """Let go of everything: the session is over."""
        self.known = self._committed = {}
        self._savepoints = []
        if self.catalogue_memory is not None:
            self.catalogue_memory.release()

    def end_transaction(self, commit: bool) -> None:
        """Keep what a transaction did, or undo it."""
        self._savepoints = []
        if commit:
            self._committed = self.known
        else:
            self.known = self._committed

    def savepoint(self, verb: str, name: str) -> None:
        """Follow a savepoint that was set, released or returned to."""
        name = name[:63]
        if verb == "SAVEPOINT":
            self._savepoints.append((name, self.known))
            return
        at = next(at for at in reversed(range(len(self._savepoints))) if self._savepoints[at][0] == name)
        if verb == "ROLLBACK":
            self.known = self._savepoints[at][1]
        del self._savepoints[at + (verb == "ROLLBACK") :]


def _view_columns(statement: CreateView, described: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns of a view as the statement names them."""
    if len(statement.columns) > len(described):
        raise WireError("42601", "CREATE VIEW specifies more column names than columns")
    if len(described) > MAX_VIEW_COLUMNS:
        raise WireError("54011", f"views can have at most {MAX_VIEW_COLUMNS} columns")
    names = [*statement.columns, *(column.name for column in described[len(statement.columns) :])]
    seen: set[str] = set()
    for name in names:
        if fold_name(name) in seen:
            raise WireError("42701", f'column "{name[:63]}" specified more than once', "", "Give it an alias.")
        seen.add(fold_name(name))
    return tuple(Column(name, column.oid) for name, column in zip(names, described, strict=True))
