"""Bugs to plant in requests for rights, and in what people who were not there are shown."""

from tests.planted.bug import Bug, planned

_RIGHTS = "tests/paths/test_rights_requests.py"
_GRANTS = "tests/ledger/test_rights_grants.py"
_REPORT = "tests/reports/test_report.py"

PAPERS_BUGS: tuple[Bug, ...] = (
    planned(
        "a request for rights says whether the name exists",
        _RIGHTS,
        (
            "approvals.py",
            "            return self._file_for_rights(sql, parameters, reason, price_said)",
            "            if refusal.undeclared[1].lower() not in str(self.policy).lower():\n"
            "                raise\n"
            "            return self._file_for_rights(sql, parameters, reason, price_said)",
        ),
    ),
    planned(
        "a grant of names holds for every text of the account",
        _RIGHTS,
        ("ledger/approvals.py", "if filed.event or filed.sql != sql:", "if filed.event:"),
    ),
    planned(
        "a name that was granted once is paid for by the own budget later",
        _RIGHTS,
        ("refining.py", "        raise no_such_grant()", "        return asked"),
        ("ledger/transaction.py", "        if request.only_granted and not grant:", "        if False:"),
    ),
    planned(
        "a request for names that waits grants them",
        _RIGHTS,
        (
            "prepare.py",
            "        names = () if self._rights.complete else granted_names(self._ledger, self._account, text)\n",
            "        names = () if self._rights.complete else granted_names(self._ledger, self._account, text)\n"
            "        if not names and self._ledger.open_requests():\n"
            "            tables = self._policy.tables\n"
            "            names = tuple((table.name, column.name) for table in tables for column in table.columns)\n",
        ),
        ("refining.py", "        raise no_such_grant()", "        return asked"),
    ),
    planned(
        "an approval grants another measurement than was requested",
        _GRANTS,
        (
            "ledger/one_time_grants.py",
            "case _ if row.question or row.event or read_names(row.content):",
            "case _ if False:",
        ),
    ),
    planned(
        "two owners grant rights for one request",
        _GRANTS,
        ("ledger/approvals.py", "    if _open_request(transaction, place, DATASET).approved:", "    if False:"),
        (
            "ledger/one_time_grants.py",
            "case RowKind.APPROVED if known.measurement.startswith(_RIGHTS) and author == OWNER_AUTHOR:",
            "case RowKind.APPROVED if read_names(row.content) and author == OWNER_AUTHOR:",
        ),
    ),
    planned(
        "the report understates what was spent",
        _REPORT,
        (
            "reports/report.py",
            'f"{budget.spent}. {percent_up',
            'f"{accounts.budgets().popitem()[1].spent}. {percent_up',
        ),
    ),
    planned(
        "the report leaves out the charges of analysts",
        _REPORT,
        ("reports/answers.py", "accounts.history(None,", 'accounts.history("",'),
    ),
    planned(
        "the report leaves out the accounts of analysts",
        _REPORT,
        (
            "reports/report.py",
            "        for name, budget in accounts.budgets().items()",
            "        for name, budget in accounts.budgets().items()\n        if not name",
        ),
    ),
    planned(
        "the record has the delta of one question",
        "tests/reports/test_record.py",
        (
            "reports/record.py",
            '            "privacy_parameters": _parameters(total),',
            '            "privacy_parameters": _parameters(PrivacyLoss(total.epsilon, total.delta / 1000)),',
        ),
    ),
    planned(
        "a rehearsal looks at the source",
        "tests/rehearsal/test_rehearsal.py",
        (
            "rehearsal/policy.py",
            "    tables = tuple(replace(table, stored=None) for table in policy.tables)\n",
            "    tables = tuple(replace(table, stored=None) for table in policy.tables)\n"
            "    assert policy.source.path is None or policy.source.path.exists() is not None\n",
        ),
    ),
    planned(
        "a rehearsal is charged to the real ledger",
        "tests/rehearsal/test_rehearsal.py",
        ("rehearsal/policy.py", ', ledger=file_ledger(folder / "rehearsal.ledger"))', ")"),
    ),
    planned(
        "an agent asks at a price that nobody named",
        "tests/agents/test_mcp.py",
        ("agents/tools.py", "            epsilon = self._epsilon\n", '            epsilon = self._epsilon or "0.1"\n'),
    ),
    planned(
        "an agent sees the history of every account",
        "tests/agents/test_mcp.py",
        (
            "agents/tools.py",
            "for entry in self._account.history(limit)]",
            "for entry in self._account.payer.ledger.history(None, limit)]",
        ),
    ),
)
