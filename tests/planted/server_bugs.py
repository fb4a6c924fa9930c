"""Bugs of the server: each lets somebody without a grant, or another account, take what is not theirs."""

from tests.planted.bug import Bug, planned

_REPLIES = "tests/server/test_replies.py"

SERVER_BUGS: tuple[Bug, ...] = (
    planned(
        "strangers write into the log of evidence",
        "tests/server/test_audit.py",
        (
            "server/audit.py",
            "        if account is None:\n            self._write_anonymous(address, entry)\n            return\n",
            "",
        ),
    ),
    planned(
        "a log of evidence is written over",
        "tests/server/test_audit.py",
        ("server/audit_chain.py", "    while os.path.lexists(path", "    while False and os.path.lexists(path"),
    ),
    planned(
        "a flood ends the log-ins of others",
        "tests/server/test_connections.py",
        (
            "server/connections.py",
            "return max(self._waiting, key=lambda name: len(self._waiting[name]))",
            "return next(iter(self._waiting))",
        ),
    ),
    planned(
        "who has logged in can be ended to make room",
        "tests/server/test_connections.py",
        (
            "server/connections.py",
            "        self._stop_waiting(connection)\n        connection.account = account\n",
            "        connection.account = account\n",
        ),
    ),
    planned(
        "two accounts use all threads",
        "tests/server/test_scheduling.py",
        (
            "server/scheduling.py",
            "if self._running.get(name, 0) < self._free)",
            "if self._running.get(name, 0) < 1000)",
        ),
    ),
    planned(
        "a console session outlives its grant",
        "tests/server/test_sessions.py",
        ("server/sessions.py", "grant.id if grant.kind is GrantKind.TOKEN else", '"" if grant.id else'),
    ),
    planned(
        "the console's pages are not escaped",
        "tests/server/test_templates.py",
        ("server/console/templates.py", "    autoescape=True,\n", ""),
    ),
    planned(
        "everybody's forwarded address is believed",
        "tests/server/test_connections.py",
        ("server/proxies.py", "        if not self.trusts(peer):\n            return peer\n", ""),
    ),
    planned(
        "an answer waits in memory until a thread renders it",
        _REPLIES,
        (
            "server/gate.py",
            '        return (await self._serve(caller, "release", reopen)).take()\n',
            '        opened = await self._serve(caller, "release", lambda: database.reopen(receipt))\n'
            "        return await self.work(caller, lambda: (render or render_unchanged)(opened))\n",
        ),
    ),
    planned(
        "replies that nobody reads are not counted",
        _REPLIES,
        ("server/replies.py", "            holding.add(len(content))\n", "            pass\n"),
    ),
    planned(
        "a refusal holds the reply that it refuses",
        _REPLIES,
        ("server/rendered.py", "            clear_frames(error.__traceback__)", "            pass"),
    ),
    planned(
        "a reply leaves in one piece",
        _REPLIES,
        ("server/http.py", "        if len(body) <= PIECE_BYTES:\n", "        if body or ends:\n"),
    ),
)
