"""Bugs to plant in temporary views: rights, prices, names and limits of the text that is asked."""

from tests.planted.bug import Bug, planned

_VIEWS = "tests/server/wire/test_temporary_views.py"

CLIENTS2_BUGS: tuple[Bug, ...] = (
    planned(
        "a temporary view is seen by every session",
        _VIEWS,
        (
            "server/wire/temporary_views.py",
            "        self.known: Mapping[str, TemporaryView] = {}\n",
            "        self.known: Mapping[str, TemporaryView] = _SHARED\n",
        ),
        (
            "server/wire/temporary_views.py",
            "        known = {**self.known, key: made}\n        closure([key], known)\n",
            "        _SHARED[key] = made\n        known = _SHARED\n        closure([key], known)\n",
        ),
        (
            "server/wire/temporary_views.py",
            "_FIRST_NUMBER = 500_000\n",
            "_FIRST_NUMBER = 500_000\n_SHARED: dict[str, 'TemporaryView'] = {}\n",
        ),
    ),
    planned(
        "a temporary view hides a table",
        _VIEWS,
        (
            "server/wire/temporary_views.py",
            'if any(key == fold_name(name) for name in tables) or ("pg_catalog", key) in relations():',
            'if ("pg_catalog", key) in relations():',
        ),
    ),
    planned(
        "a name that the text defines captures a name inside a view",
        _VIEWS,
        (
            "server/wire/view_expansion.py",
            '    first = (opening.end(), f"{clauses},\\n") if opening else (begin, f"WITH {clauses}\\n")\n',
            '    first = (begin, f"WITH {clauses}\\n") if not opening else (len(text), "")\n',
        ),
    ),
    planned(
        "a view keeps the columns that its role had when it was made",
        _VIEWS,
        ("server/wire/answers.py", "                view.check_columns(columns)\n", "                pass\n"),
    ),
    planned(
        "a view that a failed text made stays",
        _VIEWS,
        ("server/wire/session.py", "            self._views.end_transaction(not self._has_failed)\n", ""),
    ),
    planned(
        "views are written out however long they are",
        _VIEWS,
        ("server/wire/view_expansion.py", "    if size > MAX_SQL_CHARS:\n", "    if size < 0:\n"),
    ),
    planned(
        "views read each other in a circle",
        _VIEWS,
        (
            "server/wire/view_expansion.py",
            "            if key in path or len(path) >= MAX_VIEW_DEPTH:\n",
            "            if key in path:\n                return 0\n            if len(path) >= MAX_VIEW_DEPTH:\n",
        ),
    ),
    planned(
        "a prepared statement runs the view that there was",
        _VIEWS,
        (
            "server/wire/answers.py",
            "        if prepared.expansion is not None and not self._views.has_all(prepared.expansion.views):\n"
            "            return True\n",
            "",
        ),
    ),
    planned(
        "views are held without counting their memory",
        _VIEWS,
        ("server/wire/temporary_views.py", "            catalogue.add(CATALOGUE_BYTES)\n", ""),
        ("server/wire/temporary_views.py", "        holding.add(2000 + ", "        holding.add(0 * "),
    ),
)
