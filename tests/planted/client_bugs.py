"""Bugs of cursors, COPY and notices to plant: memory that nobody counts, and prices that change or stay untold."""

from tests.planted.bug import Bug, planned

_MEMORY = "tests/server/wire/test_memory.py"
_CURSORS = "tests/server/wire/test_cursors.py"
_NOTICES = "tests/server/wire/test_notices.py"

CLIENT_BUGS: tuple[Bug, ...] = (
    planned(
        "rows that a cursor holds are not counted",
        _MEMORY,
        ("server/wire/cursors.py", "                holding.add(size_of(found[-1]) + POINTER_BYTES)\n", ""),
    ),
    planned(
        "the text of a declared cursor is not counted",
        _MEMORY,
        (
            "server/wire/cursors.py",
            "getsizeof(declared.name) + 2 * getsizeof(declared.sql)\n",
            "getsizeof(declared.name)\n",
        ),
    ),
    planned(
        "the cursors of a session that ended keep their memory",
        _MEMORY,
        (
            "server/wire/cursors.py",
            "            found.holding.release()\n            if found.rows is not None:\n"
            "                found.rows.holding.release()\n",
            '            self._memory.kept = [*getattr(self._memory, "kept", []), found]\n',
        ),
    ),
    planned(
        "a cursor is charged at the price of its first FETCH",
        _CURSORS,
        (
            "server/wire/answers.py",
            "self._cursors.declare(statement, replace(question, price=self._settings.price()), values)",
            "self._cursors.declare(statement, question, values)",
        ),
    ),
    planned(
        "a cursor is asked when it is declared",
        _CURSORS,
        (
            "server/wire/answers.py",
            "        self._cursors.declare(statement, replace(question, price=self._settings.price()), values)\n",
            "        self._cursors.declare(statement, replace(question, price=self._settings.price()), values)\n"
            '        await self.move(statement.name, Direction("relative", 1))\n',
        ),
    ),
    planned(
        "a charged COPY says nothing of its price",
        _NOTICES,
        (
            "server/wire/commands.py",
            '                self._outgoing.notify(answer.notices)\n                self._done(f"COPY',
            '                self._done(f"COPY',
        ),
    ),
    planned(
        "EXPLAIN shows a cost for what is paid for",
        _NOTICES,
        ("server/wire/answers.py", "_cost_line(None if is_free else quote.loss)", "_cost_line(quote.loss)"),
    ),
)
