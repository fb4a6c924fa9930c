"""Bugs of the server to plant again: replies that gather, answers that stay, exact counts freed after the padding."""

from tests.planted.bug import Bug, planned

HOSTILE_SERVER_BUGS: tuple[Bug, ...] = (
    planned(
        "replies to one packet gather in memory",
        "tests/server/wire/test_memory.py",
        (
            "server/wire/session.py",
            "                self._fail(error)\n            await self._give_turn()\n",
            "                self._fail(error)\n",
        ),
    ),
    planned(
        "an answer holds itself",
        "tests/server/test_scheduling.py",
        (
            "server/scheduling.py",
            "future.add_done_callback(partial(self._leave, account))",
            "future.add_done_callback(lambda _: self._leave(account, future))",
        ),
    ),
    planned(
        "what was read is freed after the padding",
        "tests/server/test_padding.py",
        ("ledger/ledger.py", "            clear_frames(error.__traceback__)", "            pass"),
    ),
)
