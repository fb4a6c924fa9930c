"""Worker threads are shared fairly: a third account never waits for two others, and turns go round."""

import asyncio
from collections.abc import Callable
from threading import Event

import pytest

from sfumato.server.scheduling import FairPool


def run(course: Callable[[], object]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(course(), 60)  # type: ignore[arg-type]

    asyncio.run(bounded())


@pytest.mark.parametrize("threads", [4, 5, 8, 16])
@pytest.mark.parametrize("in_turn", [True, False])
def test_however_much_two_accounts_ask_a_third_begins_at_once(threads: int, in_turn: bool) -> None:
    async def course() -> None:
        pool, let_go = FairPool(threads, "test", 1000), Event()
        names = [f"account {number % 2 if in_turn else number // 50}" for number in range(100)]
        others = [pool.submit(name, let_go.wait) for name in names]
        third = pool.submit("third", lambda: "answer")
        assert third is not None
        try:
            answer = await asyncio.wait_for(asyncio.wrap_future(third), 20)  # while nothing of the others has ended
            assert answer == "answer"
            assert not any(one is not None and one.done() for one in others)
        finally:
            let_go.set()
        assert all(await asyncio.gather(*(asyncio.wrap_future(one) for one in others if one is not None)))
        pool.shutdown()

    run(course)


def test_when_all_threads_are_busy_the_next_free_one_goes_to_whose_turn_it_is() -> None:
    async def course() -> None:
        pool, order = FairPool(1, "test", 1000), list[str]()
        gate = Event()
        first = pool.submit("a", gate.wait)
        waiting = [pool.submit(name, lambda name=name: order.append(name)) for name in "aaaabbbbc"]  # type: ignore[misc]
        gate.set()
        await asyncio.gather(*(asyncio.wrap_future(one) for one in (first, *waiting) if one is not None))
        assert "".join(order) == "abcababab"
        pool.shutdown()

    run(course)


def test_one_account_has_at_most_half_of_the_threads_and_so_many_that_wait() -> None:
    async def course() -> None:
        pool, let_go, begun = FairPool(8, "test", 5), Event(), list[int]()

        def task() -> None:
            begun.append(1)
            let_go.wait(60)

        found = [pool.submit("a", task) for _ in range(20)]
        assert sum(one is None for one in found) == 20 - 4 - 5
        waiting = [one for one in found if one is not None]
        assert waiting[-1].cancel()
        assert pool.submit("a", task) is not None  # the one that was cancelled left its place
        let_go.set()
        await asyncio.gather(*(asyncio.wrap_future(one) for one in waiting[:-1]))
        while not pool.is_idle:
            await asyncio.sleep(0)
        assert len(begun) == 9
        pool.shutdown()
        assert pool.submit("a", task) is None

    run(course)


def test_what_waits_can_be_refused_and_what_runs_goes_on() -> None:
    async def course() -> None:
        pool, let_go = FairPool(2, "test", 100), Event()
        running, waiting = pool.submit("a", let_go.wait), pool.submit("a", let_go.wait)
        assert running is not None
        assert waiting is not None
        pool.refuse_waiting(lambda: ValueError("stopped"))
        with pytest.raises(ValueError, match="stopped"):
            await asyncio.wrap_future(waiting)
        let_go.set()
        assert await asyncio.wrap_future(running)
        pool.shutdown()

    run(course)
