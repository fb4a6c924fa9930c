"""Bugs to plant in what is remembered of questions and prices."""

from tests.planted.bug import Bug, planned

_ANCHOR = "tests/ledger/test_anchor.py"
_COUNTS = "tests/ledger/test_charge_counts.py"
_PREFERRED = "tests/paths/test_preferred_plan.py"
_SHAPES = "tests/paths/test_shapes_of_texts.py"

FIXEDCOST_BUGS: tuple[Bug, ...] = (
    planned(
        "remembered noise forgets how far a person moves a sum",
        _SHAPES,
        (
            "planning/noise_shape.py",
            "    return replace(one, quantity=_NO_ARGUMENTS[one.quantity.function])",
            "    moved = replace(one.sensitivity, l1=1, l2_squared=1, linf=1)\n"
            "    return replace(one, quantity=_NO_ARGUMENTS[one.quantity.function], sensitivity=moved, side=1)",
        ),
    ),
    planned(
        "remembered noise forgets the price",
        _SHAPES,
        (
            "planning/noise.py",
            "_noise_of_shape(tuple(map(shape_of, needs)), epsilon, delta, cap)",
            "_noise_of_shape(tuple(map(shape_of, needs)), Fraction(1), delta, cap)",
        ),
    ),
    planned(
        "an event is remembered without its noise",
        _SHAPES,
        (
            "planning/noise.py",
            "parts += (one.name, one.mechanism, one.sensitivity, one.bound)",
            "parts += (one.bound,)",
        ),
    ),
    planned(
        "what is measured is remembered for another kind of price",
        _SHAPES,
        ("planning/ways.py", "known.fixed in (None, asked.fixed)", "True"),
    ),
    planned(
        "what is kept of a question is not looked for",
        _PREFERRED,
        ("ledger/ledger.py", "if known or any(one.account", "if any(one.account"),
    ),
    planned(
        "only answers about the first cells are looked for",
        _PREFERRED,
        ("planning/named_plans.py", "for groups in shared.needs.cells]", "for groups in shared.needs.cells[:1]]"),
    ),
    planned(
        "charges of a turn that is taken back stay counted",
        _COUNTS,
        (
            "ledger/transaction.py",
            "self._charge_counts.count(self._store, account, self._durable), self.state.sequence",
            "self._charge_counts.count(self._store, account, self.state.sequence), self._durable",
        ),
    ),
    planned(
        "charges of the same turn are not counted",
        _COUNTS,
        (
            "ledger/transaction.py",
            "(self._store.count_charges(account, self._durable, last) if last > self._durable else 0)",
            "0",
        ),
    ),
    planned(
        "an anchor is written over a longer one",
        _ANCHOR,
        (
            "ledger/anchor.py",
            "    if os.fstat(descriptor).st_size == length:\n",
            "    if os.fstat(descriptor).st_size >= length:\n",
        ),
    ),
    planned(
        "the anchor names rows before they are durable",
        _ANCHOR,
        (
            "ledger/sqlite_store.py",
            '                    self._connection.execute("COMMIT")\n                    self._changed = True\n'
            "                    following.put_in_place()\n",
            '                    following.put_in_place()\n                    self._connection.execute("COMMIT")\n'
            "                    self._changed = True\n",
        ),
    ),
    planned(
        "joined questions are remembered without their public rows",
        "tests/paths/test_remembered.py",
        ("prepare.py", "size_of((key, read)) + materialized_bytes(read.private)", "size_of((key, read))"),
    ),
)
