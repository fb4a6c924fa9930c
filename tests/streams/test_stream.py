"""A stream goes on where it stopped, bit for bit; what is not a step is refused and does not count."""

import os
import stat
import threading
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from tests.sources import ScriptedSource, SourceDied
from tests.streams.plans_of_all_kinds import ADD, CELLS, PLANS, STEPS, VALUES, coins, fed, name, whole

from sfumato.errors import BadParameter, Refusal, StreamUnavailable
from sfumato.streams import GaussianSums, Released, Stream
from sfumato.streams.plans import StreamPlan, TreeSums, UnboundedSums, WindowEvents


@pytest.mark.parametrize("plan", PLANS, ids=name)
def test_stopped_and_reopened_at_any_step_the_future_is_the_uninterrupted_one(tmp_path: Path, plan: StreamPlan) -> None:
    expected = whole(tmp_path / "whole", plan)
    Stream.create(tmp_path / "stopped", plan).close()
    for stop in range(STEPS):
        with Stream.open(tmp_path / "stopped") as stream:
            assert stream.time == stop
            assert stream.plan == plan
            released = stream.observe(VALUES[stop], coins(stop + 1))
            assert released.time == stop + 1
            assert released.estimate.tobytes() == expected.released[stop].tobytes()
    with Stream.open(tmp_path / "stopped") as stream:
        assert stream.raw.tolist() == expected.raw.tolist()
        assert stream.released.tobytes() == expected.released.tobytes()
        assert stream.window(4).tobytes() == expected.window(4).tobytes()
        assert stream.charges == expected.charges


def test_many_cells_and_steps_go_on_bit_for_bit(tmp_path: Path) -> None:
    """Enough of them that sums are computed in blocks of all lengths."""
    plan = GaussianSums.by_rho(1, 70, ADD, cells=131)
    values = np.arange(70 * 131).reshape(70, 131) % 1009
    expected = whole(tmp_path / "whole", plan, values.tolist())
    with Stream.create(tmp_path / "stopped", plan) as stream:
        fed(stream, values[:33].tolist())
    with Stream.open(tmp_path / "stopped") as stream:
        fed(stream, values[33:].tolist())
        assert stream.raw.tolist() == expected.raw.tolist()
        assert stream.released.tobytes() == expected.released.tobytes()


NO_STEPS: tuple[object, ...] = (
    (1,),
    (1, 2, 3),
    [[1, 2]],
    5,
    (1, 2.0),
    (1, float("nan")),
    (1, True),
    (1, "2"),
    (1, None),
    (1, 2**40 + 1),
    (-(2**70), 1),
    np.array([1.0, 2.0]),
    np.array([1, 2**63], dtype=np.uint64),
    np.array([True, False]),
    None,
    "ab",
    {},
    (1, [2]),
)


@pytest.mark.parametrize("plan", PLANS, ids=name)
def test_what_is_not_one_integer_per_cell_is_refused_and_does_not_count(tmp_path: Path, plan: StreamPlan) -> None:
    stream = whole(tmp_path / "s", plan, VALUES[:2])
    before = (tmp_path / "s").read_bytes()
    for values in NO_STEPS:
        with pytest.raises(BadParameter) as refused:
            stream.observe(values, coins(3))
        assert "one integer per cell" in str(refused.value)
    assert (tmp_path / "s").read_bytes() == before
    fed(stream, VALUES[2:])
    assert stream.raw.tolist() == whole(tmp_path / "other", plan).raw.tolist()


def test_integers_of_every_kind_are_values(tmp_path: Path) -> None:
    with Stream.create(tmp_path / "s", PLANS[0]) as stream:
        for values in ([2**40, -(2**40)], (1, 2), np.array([1, 2], dtype=np.uint8), np.array([1, 2], dtype=object)):
            assert isinstance(stream.observe(values), Released)


def test_what_the_caller_does_with_arrays_later_changes_nothing(tmp_path: Path) -> None:
    expected = whole(tmp_path / "whole", PLANS[0])
    stream, row = Stream.create(tmp_path / "s", PLANS[0]), np.zeros(CELLS, dtype=np.int64)
    for step, values in enumerate(VALUES):
        row[:] = values
        shown = stream.observe(row, coins(step + 1))
        shown.estimate[:] = 0
        stream.released[:] = 0
    assert stream.released.tobytes() == expected.released.tobytes()


@pytest.mark.parametrize(
    "plan", [plan for plan in PLANS if not isinstance(plan, UnboundedSums | WindowEvents)], ids=name
)
def test_there_is_no_step_after_the_horizon(tmp_path: Path, plan: StreamPlan) -> None:
    stream = whole(tmp_path / "s", plan)
    with pytest.raises(BadParameter, match="horizon"):
        stream.observe(VALUES[0])
    assert stream.time == STEPS


def test_there_is_no_step_after_close(tmp_path: Path) -> None:
    stream = whole(tmp_path / "s", PLANS[0], VALUES[:3])
    stream.close()
    stream.close()
    with pytest.raises(BadParameter, match="closed"):
        stream.observe(VALUES[3])
    assert stream.time == 3
    assert stream.released.shape == (3, CELLS)


def test_one_handle_at_a_time(tmp_path: Path) -> None:
    stream = Stream.create(tmp_path / "s", PLANS[0])
    for _ in range(2):
        with pytest.raises(StreamUnavailable):
            Stream.open(tmp_path / "s")
    stream.observe(VALUES[0])
    stream.close()
    with Stream.open(tmp_path / "s"), pytest.raises(StreamUnavailable):
        Stream.open(tmp_path / "s")


def test_a_handle_that_nobody_holds_lets_go_of_the_file(tmp_path: Path) -> None:
    stream = whole(tmp_path / "s", PLANS[0], VALUES[:2])
    del stream
    assert Stream.open(tmp_path / "s").time == 2


def _in_a_child(folder: Path) -> None:
    """Fork with an open stream; it runs in a program of its own, where no other test has left threads behind."""
    stream = whole(folder / "s", PLANS[0], VALUES[:2])
    child = os.fork()
    if child == 0:
        try:
            stream.observe(VALUES[2])
        except BadParameter:
            os._exit(17)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    stream.observe(VALUES[2])
    assert stream.time == 3


def test_a_child_process_cannot_go_on_with_its_parents_handle(tmp_path: Path) -> None:
    program = get_context("spawn").Process(target=_in_a_child, args=(tmp_path,))
    program.start()
    program.join(60)
    assert program.exitcode == 0


def test_a_stream_does_not_begin_where_something_is(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for place in ("s", "link", "", "no/folder/s"):
        with pytest.raises(BadParameter):
            Stream.create(tmp_path / place, PLANS[0])
    assert (tmp_path / "s").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "s"]


def test_what_is_no_stream_and_no_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="no stream"):
        Stream.open(tmp_path / "missing")
    for path in (tmp_path, 5, None, "a\0b"):
        with pytest.raises(Refusal):
            Stream.open(path)  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match="not a plan"):
        Stream.create(tmp_path / "s", "sums")  # type: ignore[arg-type]
    assert not (tmp_path / "s").exists()


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Stream.create(tmp_path / "s", PLANS[0]).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600


def test_a_process_that_moves_keeps_its_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stream = Stream.create("s", PLANS[0])
    monkeypatch.chdir("/")
    assert stream.observe(VALUES[0]).time == 1


def test_a_source_that_dies_leaves_no_step_behind(tmp_path: Path) -> None:
    stream = whole(tmp_path / "s", PLANS[0], VALUES[:2])
    before = (tmp_path / "s").read_bytes()
    with pytest.raises(SourceDied):
        stream.observe(VALUES[2], ScriptedSource(b"x"))
    assert (tmp_path / "s").read_bytes() == before
    fed(stream, VALUES[2:])
    assert stream.raw.tolist() == whole(tmp_path / "other", PLANS[0]).raw.tolist()


def test_threads_share_a_stream(tmp_path: Path) -> None:
    plan = GaussianSums.by_rho(1, 40, ADD)
    stream = Stream.create(tmp_path / "s", plan)
    times: list[int] = []
    crowd = [
        threading.Thread(target=lambda: times.extend(stream.observe([1]).time for _ in range(10))) for _ in range(4)
    ]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    assert sorted(times) == list(range(1, 41))
    stream.close()
    assert Stream.open(tmp_path / "s").time == 40


def test_a_pan_private_file_holds_no_true_count_and_no_earlier_state(tmp_path: Path) -> None:
    """Neither the values nor their sums are in the file, and only the last state can be opened."""
    plan = next(plan for plan in PLANS if getattr(plan, "pan_private", False))
    value = 0x1234567890
    with Stream.create(tmp_path / "s", plan) as stream:
        for step in range(3):
            stream.observe([value, value], coins(step))
            data = (tmp_path / "s").read_bytes()
            for times in range(1, 4):
                assert (times * value).to_bytes(8, "little") not in data
    kept = whole(tmp_path / "plain", PLANS[4], [(value, value)])
    kept.close()
    assert value.to_bytes(8, "little") in (tmp_path / "plain").read_bytes()  # the other tree does remember values


def test_pan_private_sums_have_twice_the_variance(tmp_path: Path) -> None:
    """Variance of 4,000 cells against 2 · popcount · 2q/(1-q)²; sd of the ratio is 0.04, six of them are allowed."""
    wide = TreeSums(3, Fraction(7, 2), ADD, cells=4000, pan_private=True)
    with Stream.create(tmp_path / "s", wide) as stream:
        for step in range(3):
            stream.observe([5] * 4000, coins(step))
        errors = stream.released - 5 * np.arange(1, 4)[:, None]
    assert errors.var(axis=1) / wide.variance() == pytest.approx(1, abs=0.24)
    assert np.abs(errors.mean(axis=1)) == pytest.approx(0, abs=6 * np.sqrt(wide.variance().max() / 4000))


def test_a_stream_says_what_it_is(tmp_path: Path) -> None:
    with Stream.create(tmp_path / "s", PLANS[4]) as stream:
        assert repr(stream) == "<stream of TreeSums(horizon=9, scale=7/2, neighbours=add-remove, cells=2), 0 steps>"
        assert stream.raw.shape == stream.released.shape == (0, CELLS)
        assert stream.window(3).tolist() == [0.0, 0.0]
        with pytest.raises(BadParameter):
            stream.window(0)
