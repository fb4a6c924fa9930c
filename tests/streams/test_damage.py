"""A file that was cut, edited or replaced is refused; with a ledger so is an old copy and one of two."""

import shutil
from fractions import Fraction
from functools import reduce
from pathlib import Path

import pytest
from tests.ledger.accounts import policy_in
from tests.streams.plans_of_all_kinds import ADD, PLANS, VALUES, coins, fed, name, whole

from sfumato.accounting.event import Neighbours, Repeated
from sfumato.errors import BadParameter, BudgetExhausted, LedgerDamaged, MixedNeighbours, Refusal, StreamDamaged
from sfumato.ledger.chain import GENESIS, with_chain_hash
from sfumato.ledger.ledger import Ledger, StreamProgress
from sfumato.ledger.opening import open_ledger
from sfumato.ledger.state import EMPTY, folded
from sfumato.ledger.transaction import LedgerTransaction
from sfumato.ledger.verifying import verify_rows
from sfumato.streams.plans import GaussianSums, StreamPlan, TreeSums
from sfumato.streams.stream import Stream

TREE = TreeSums(8, Fraction(20), ADD, cells=2)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return open_ledger(policy_in(tmp_path, 1))


@pytest.mark.parametrize("plan", PLANS, ids=name)
def test_a_change_of_any_byte_is_refused(tmp_path: Path, plan: StreamPlan) -> None:
    path = tmp_path / "s"
    whole(path, plan, VALUES[:2]).close()
    sound = path.read_bytes()
    for place in range(0, len(sound), 3):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ (1 << place % 8)]) + sound[place + 1 :])
        with pytest.raises(StreamDamaged):
            Stream.open(path)
    path.write_bytes(sound)
    assert Stream.open(path).time == 2


def test_a_file_that_was_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    whole(path, PLANS[0], VALUES[:3]).close()
    sound = path.read_bytes()
    for length in range(0, len(sound), 2):
        path.write_bytes(sound[:length])
        with pytest.raises(StreamDamaged):
            Stream.open(path)


@pytest.mark.parametrize("more", [b"x", b"\0" * 5 + b"x", b"a longer ending than a mark has bytes"])
def test_what_is_behind_the_end_and_no_torn_step_is_refused(tmp_path: Path, more: bytes) -> None:
    path = tmp_path / "s"
    whole(path, PLANS[0], VALUES[:2]).close()
    path.write_bytes(path.read_bytes() + more)
    with pytest.raises(StreamDamaged):
        Stream.open(path)


@pytest.mark.parametrize("data", [b"", b"{}", b"sfumato stream 1" + bytes(200), b"sfumato stream 2" * 20])
def test_what_is_no_stream_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "s").write_bytes(data)
    with pytest.raises(StreamDamaged):
        Stream.open(tmp_path / "s")


def test_a_step_that_was_torn_before_it_counted_is_drawn_anew(tmp_path: Path) -> None:
    """Every cut of the last record, and zeros where it was to lie, under the block of the step before."""
    path = tmp_path / "s"
    stream = whole(path, PLANS[0], VALUES[:2])
    before = path.read_bytes()
    fed(stream, VALUES[2:3])
    stream.close()
    after = path.read_bytes()
    expected = whole(tmp_path / "whole", PLANS[0]).raw.tolist()
    torn = [before + after[len(before) : end] for end in range(len(before), len(after) + 1, 17)]
    for data in (*torn, before + bytes(60)):
        path.write_bytes(data)
        with Stream.open(path) as stream:
            assert stream.time == 2
            fed(stream, VALUES[2:])
            assert stream.raw.tolist() == expected


def test_a_file_that_is_replaced_while_it_is_open_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    stream = whole(path, PLANS[0], VALUES[:2])
    shutil.copy(path, tmp_path / "old")
    (tmp_path / "old").replace(path)
    with pytest.raises(StreamDamaged, match="replaced"):
        stream.observe(VALUES[2])


def test_a_stream_is_charged_once_and_when_it_is_created(tmp_path: Path, ledger: Ledger) -> None:
    with Stream.create(tmp_path / "s", TREE, ledger=ledger, words="visits by day") as stream:
        (entry,) = ledger.history()
        assert entry.event == TREE.event == Repeated(TREE.event.event, 4)
        assert entry.loss.epsilon == Fraction(4, 20)
        assert entry.sql == "visits by day"
        spent = ledger.budget().spent.epsilon
        assert spent == Fraction(4, 20)
        fed(stream, VALUES[:5])
    with Stream.open(tmp_path / "s", ledger=ledger) as stream:
        fed(stream, VALUES[5:8])
        assert stream.time == 8
    (entry,) = ledger.history()
    assert entry.state == "settled"
    assert ledger.budget().spent.epsilon == spent
    assert ledger.verify().entries == 1 + 2 + 9  # policy; charge and answer; the beginning and eight steps


def test_a_budget_that_is_spent_refuses_a_stream_and_leaves_no_file(tmp_path: Path, ledger: Ledger) -> None:
    dear = TreeSums(8, Fraction(2), ADD)
    with pytest.raises(BudgetExhausted):
        Stream.create(tmp_path / "s", dear, ledger=ledger)
    with pytest.raises(BadParameter, match="delta"):
        Stream.create(tmp_path / "s", PLANS[0], ledger=ledger)
    Stream.create(tmp_path / "s", TREE, ledger=ledger).close()
    with pytest.raises(MixedNeighbours):
        Stream.create(tmp_path / "t", TreeSums(8, Fraction(20), Neighbours.REPLACE), ledger=ledger)
    assert sorted(path.name for path in tmp_path.iterdir() if "ledger" not in path.name) == ["s"]
    assert len(ledger.history()) == 1


def test_a_path_that_is_taken_is_refused_before_anything_is_charged(tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / "s").write_text("mine")
    with pytest.raises(BadParameter):
        Stream.create(tmp_path / "s", TREE, ledger=ledger)
    assert ledger.history() == ()


def test_gaussian_streams_are_charged_too(tmp_path: Path) -> None:
    ledger = open_ledger(policy_in(tmp_path, 2, "1e-6"))
    plan = GaussianSums.by_rho("1/200", 365, ADD, cells=2)
    fed(Stream.create(tmp_path / "s", plan, ledger=ledger), VALUES)
    (entry,) = ledger.history()
    assert entry.event == plan.event
    assert 0 < entry.loss.epsilon < 2
    assert "Each event is protected" in entry.sql
    ledger.verify()


@pytest.mark.parametrize("plan", [TREE, TreeSums(8, Fraction(20), ADD, cells=2, pan_private=True)], ids=name)
def test_an_old_copy_of_the_file_is_refused_and_the_newest_goes_on(
    tmp_path: Path, ledger: Ledger, plan: StreamPlan
) -> None:
    path, copies = tmp_path / "s", []
    with Stream.create(path, plan, ledger=ledger) as stream:
        copies.append(path.read_bytes())
        for step, values in enumerate(VALUES[:4]):
            stream.observe(values, coins(step + 1))
            copies.append(path.read_bytes())
    for old in copies[:-1]:
        path.write_bytes(old)
        with pytest.raises(StreamDamaged, match="old copy"):
            Stream.open(path, ledger=ledger)
    path.write_bytes(copies[-1])
    with Stream.open(path, ledger=ledger) as stream:
        fed(stream, VALUES[4:8])
    ledger.verify()


def test_without_its_ledger_a_charged_stream_does_not_open(tmp_path: Path, ledger: Ledger) -> None:
    Stream.create(tmp_path / "s", TREE, ledger=ledger).close()
    Stream.create(tmp_path / "free", TREE).close()
    (tmp_path / "other").mkdir()
    other = open_ledger(policy_in(tmp_path / "other", 1))
    with pytest.raises(BadParameter, match="with a ledger"):
        Stream.open(tmp_path / "s")
    with pytest.raises(BadParameter, match="without a ledger"):
        Stream.open(tmp_path / "free", ledger=ledger)
    with pytest.raises(StreamDamaged):
        Stream.open(tmp_path / "s", ledger=other)


def test_of_two_copies_that_go_on_one_is_refused_before_its_step_is_shown(tmp_path: Path, ledger: Ledger) -> None:
    with Stream.create(tmp_path / "s", TREE, ledger=ledger) as stream:
        fed(stream, VALUES[:3])
    shutil.copy(tmp_path / "s", tmp_path / "twin")
    one, two = Stream.open(tmp_path / "s", ledger=ledger), Stream.open(tmp_path / "twin", ledger=ledger)
    one.observe(VALUES[3])
    with pytest.raises(StreamDamaged):
        two.observe(VALUES[3])
    with pytest.raises(Refusal):
        two.observe(VALUES[3])
    two.close()
    with pytest.raises(StreamDamaged):
        Stream.open(tmp_path / "twin", ledger=ledger)
    one.observe(VALUES[4])
    ledger.verify()


def test_a_step_that_the_ledger_never_heard_of_is_shown_after_a_crash_and_not_drawn_again(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole(tmp_path / "whole", TREE, VALUES[:8])
    stream = Stream.create(tmp_path / "s", TREE, ledger=ledger)
    fed(stream, VALUES[:3])

    def crash(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as patched:
        patched.setattr(ledger, "record_progress", crash)
        with pytest.raises(OSError):  # noqa: PT011
            stream.observe(VALUES[3], coins(4))
    assert stream.time == len(stream.raw) == len(stream.released) == 3  # nothing of it can be seen
    with pytest.raises(Refusal):
        stream.observe(VALUES[3], coins(99))
    stream.close()
    with Stream.open(tmp_path / "s", ledger=ledger) as again:
        assert again.time == 4
        fed(again, VALUES[4:8])
        assert again.raw.tolist() == expected.raw.tolist()
    ledger.verify()


@pytest.mark.parametrize(
    ("place", "change"),
    [
        (-1, {"content": '{"digest":"%s","time":1}' % ("0" * 64)}),
        (-1, {"content": '{"digest":"%s","time":5}' % ("0" * 64)}),
        (-1, {"content": '{"digest":"short","time":3}'}),
        (-1, {"about": 1}),
        (-1, {"kind": "reached again"}),
        (2, {"about": 1}),
        (2, {"same": "0" * 64}),
    ],
    ids=str,
)
def test_the_second_reader_follows_every_stream(
    tmp_path: Path, ledger: Ledger, place: int, change: dict[str, object]
) -> None:
    """Entries with heads that fit, as somebody could forge them who can compute a hash."""
    with Stream.create(tmp_path / "s", TREE, ledger=ledger) as stream:
        fed(stream, VALUES[:3])
    with ledger._reading().rows() as rows:
        sound = list(rows)
    assert verify_rows(sound, None).entries == len(sound)
    forged = list(sound)
    forged[place] = forged[place]._replace(**change)  # type: ignore[arg-type]
    head, chained = GENESIS, []
    for row in forged:
        chained.append(with_chain_hash(head, row))
        head = chained[-1].head
    with pytest.raises(LedgerDamaged):
        verify_rows(chained, None)
    with pytest.raises(LedgerDamaged):
        reduce(folded, chained, EMPTY)


def test_a_digest_is_a_digest(ledger: Ledger) -> None:
    with pytest.raises(BadParameter):
        ledger.record_progress(2, 0, "not one")
    with pytest.raises(LedgerDamaged):
        ledger.record_progress(1, 0, "0" * 64)


def test_a_ledger_that_was_edited_under_a_stream_is_noticed(tmp_path: Path, ledger: Ledger) -> None:
    """More than a thousand steps: the sums that a ledger writes down hold how far each stream has come."""
    plan = TreeSums(1200, Fraction(100), ADD)
    with Stream.create(tmp_path / "s", plan, ledger=ledger) as stream:
        steps = [StreamProgress(step, f"{step:064}") for step in range(1, 1011)]

        def reach(book: LedgerTransaction) -> None:
            for step in steps:
                book.reach(2, step)

        ledger.record(reach)
        assert ledger.reached(2) is not None
    ledger.verify()
    ledger.close()
    again = open_ledger(policy_in(tmp_path, 1))
    reached = again.reached(2)
    assert reached is not None
    assert reached.time == 1010
    with pytest.raises(StreamDamaged):
        again.record_progress(2, 1010, "0" * 64)
    with pytest.raises(StreamDamaged):
        again.record_progress(2, 1012, "0" * 64)
    with pytest.raises(StreamDamaged):
        Stream.open(tmp_path / "s", ledger=again)
    assert stream.time == 0
