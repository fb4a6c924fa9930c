"""Bugs of charging and of padding to plant: a second charge, a second noise, an outcome that is seen too early."""

from tests.planted.bug import Bug, planned

_RETRIES = "tests/ledger/test_retries.py"
_PADDING = "tests/server/test_padding.py"

CHARGE_BUGS: tuple[Bug, ...] = (
    planned(
        "the anchor is written after the commit",
        _RETRIES,
        (
            "ledger/sqlite_store.py",
            "                with closing(NextAnchor(anchor, _last_entry(self._connection))) as following:\n"
            "                    self._anchor_is_behind = True\n"
            '                    self._connection.execute("COMMIT")\n',
            "                self._anchor_is_behind = True\n"
            '                self._connection.execute("COMMIT")\n'
            "                with closing(NextAnchor(anchor, _last_entry(self._connection))) as following:\n",
        ),
    ),
    planned(
        "answers leave while the anchor is behind",
        _RETRIES,
        (
            "ledger/sqlite_store.py",
            "            if self._anchor_is_behind:\n",
            "            if self._anchor_is_behind is None:\n",
        ),
    ),
    planned(
        "a retry charges again",
        _RETRIES,
        (
            "ledger/transaction.py",
            "        return Reserved(charge) if same_price and same_people and same_source else None\n",
            "        return None\n",
        ),
    ),
    planned(
        "a retry takes up a charge of another event",
        _RETRIES,
        (
            "ledger/transaction.py",
            "        return Reserved(charge) if same_price and same_people and same_source else None\n",
            "        return Reserved(charge) if same_people and same_source else None\n",
        ),
    ),
    planned(
        "an attempt is taken over while it runs",
        _RETRIES,
        (
            "ledger/ledger.py",
            "        return sequence in self._answering or self._reopen_store().is_claimed(sequence)\n",
            "        return False\n",
        ),
    ),
    planned(
        "a charge that was taken up publishes twice",
        _RETRIES,
        (
            "ledger/transaction.py",
            "        if self.state.unanswered.get(charge.same) != charge.sequence:\n            raise AnswerLost(",
            "        if self.state.unanswered.get(charge.same) != charge.sequence:\n            return\n"
            "            raise AnswerLost(",
        ),
    ),
    planned(
        "a release that could not be stored is drawn again",
        _RETRIES,
        (
            "ledger/ledger.py",
            "            self._pending[row.sequence] = row, outcome\n",
            "            self._forget(row.sequence)\n",
        ),
    ),
    planned(
        "an attempt that failed after noise is repeated",
        f"{_RETRIES} tests/test_measure.py",
        (
            "ledger/charge.py",
            "        if any(source.bits for source in self._sources):\n",
            "        if not self._sources and self._open:\n",
        ),
    ),
    planned(
        "a charge without end: tiny prices have no limit",
        _RETRIES,
        ("ledger/transaction.py", "        self._require_few_charges(request.account)\n", ""),
    ),
    planned(
        "an answer is seen before the quantum",
        _PADDING,
        (
            "ledger/charge.py",
            "    def _store(self, outcome: str) -> None:\n        try:\n            wait_for_outcome_time()\n",
            "    def _store(self, outcome: str) -> None:\n        try:\n            pass\n",
        ),
    ),
    planned(
        "a failure is seen before the quantum",
        _PADDING,
        (
            "ledger/charge.py",
            "            return\n        try:\n            wait_for_outcome_time()\n",
            "            return\n        try:\n            pass\n",
        ),
    ),
    planned(
        "history is not padded",
        _PADDING,
        (
            "server/gate.py",
            "            await padding.leave(arrival)\n",
            '            await asyncio.sleep(0) if verb == "history" else await padding.leave(arrival)\n',
        ),
    ),
    planned(
        "what cannot be recorded is not padded",
        _PADDING,
        (
            "server/gate.py",
            "            await padding.leave(arrival)\n",
            '            self.audit.write(caller.channel, caller.address, caller.account, verb, "begun")\n'
            "            await padding.leave(arrival)\n",
        ),
    ),
)
