"""Every refusal has a stable code, says what, why and what next, and survives a process boundary."""

import copy
import inspect
import pickle
import re

import pytest

import sfumato
from sfumato import errors
from sfumato.errors import REFUSALS, BadParameter, Interface, Refusal, Setting, UnsupportedEvent

CODES = {
    "answer_lost",
    "bad_parameter",
    "bad_policy",
    "bad_source",
    "bad_sql",
    "budget_exhausted",
    "engine_failed",
    "entropy_failed",
    "keys_need_delta",
    "ledger_damaged",
    "ledger_unavailable",
    "loosened_policy",
    "malformed_event",
    "mixed_neighbours",
    "policy_changed",
    "policy_weakened",
    "query_too_large",
    "raw_rows",
    "unbounded_sum",
    "unit_revealed",
    "unknown_name",
    "unreachable_margin",
    "unsafe_join",
    "unsupported_event",
    "unsupported_sql",
}
"""Written out again: a program that catches one of these must not break. Codes are added here, never changed."""


def _example(kind: type[Refusal]) -> Refusal:
    if kind is UnsupportedEvent:
        return UnsupportedEvent("an event", accountant="pure")
    return kind("This was asked.", "It has no meaning.", "Ask for that.")


def _below(kind: type[Refusal]) -> set[type[Refusal]]:
    return {kind} | {deeper for child in kind.__subclasses__() for deeper in _below(child)}


def test_every_refusal_is_listed_and_has_a_home_in_errors() -> None:
    defined = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Refusal)}
    ours = {kind for kind in _below(Refusal) if kind.__module__.startswith("sfumato")}
    assert ours == defined
    assert set(REFUSALS) == defined - {Refusal}


def test_the_list_is_in_the_order_of_its_codes() -> None:
    assert [kind.code for kind in REFUSALS] == sorted({kind.code for kind in REFUSALS})


def test_no_code_has_ever_been_renamed() -> None:
    assert {kind.code for kind in REFUSALS} >= CODES


@pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.code)
def test_a_code_is_the_name_of_its_class_in_snake_case(kind: type[Refusal]) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", kind.code)
    assert kind.code == re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
    assert "code" in vars(kind)  # its own, not inherited


@pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.code)
def test_a_refusal_has_a_sentence_for_the_list_of_codes(kind: type[Refusal]) -> None:
    sentence = (kind.__doc__ or "").strip().splitlines()[0]
    assert sentence.endswith(".")
    assert len(sentence) < 120


@pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.code)
def test_a_message_is_what_then_why_then_remedy(kind: type[Refusal]) -> None:
    refusal = _example(kind)
    assert all(part.endswith(".") for part in (refusal.what, refusal.why, refusal.remedy))
    assert str(refusal) == f"{refusal.what} {refusal.why} {refusal.remedy}"


@pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.code)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_refusal_survives_pickling(kind: type[Refusal], protocol: int) -> None:
    before = _example(kind)
    after = pickle.loads(pickle.dumps(before, protocol))
    assert type(after) is kind
    assert (str(after), after.code, after.args) == (str(before), before.code, before.args)
    assert vars(after) == vars(before)


@pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.code)
def test_a_refusal_survives_copying(kind: type[Refusal]) -> None:
    before = _example(kind)
    assert str(copy.deepcopy(before)) == str(copy.copy(before)) == str(before)


def test_refusals_are_caught_by_the_public_name() -> None:
    with pytest.raises(sfumato.Refusal, match=r"^This\. Is\. Why\.$"):
        raise BadParameter("This.", "Is.", "Why.")


def test_a_remedy_speaks_the_language_of_whoever_asked() -> None:
    told = BadParameter("No.", "So.", ("Give ", Setting("epsilon", "0.1"), " or ", Setting("within", "n=25"), "."))
    assert told.remedy == "Give epsilon='0.1' or within={'n': 25}."
    assert str(told) == f"No. So. {told.remedy}"
    assert {speaker: told.remedy_for(speaker) for speaker in Interface} == {
        Interface.PYTHON: told.remedy,
        Interface.COMMAND: "Give --epsilon 0.1 or --within n=25.",
        Interface.PROMPT: r"Give \epsilon 0.1 or \within n=25.",
        Interface.HTTP: 'Give "epsilon": "0.1" or "within": {"n": 25}.',
        Interface.SQL: "Give SET sfumato.epsilon = '0.1' or SET sfumato.within = 'n=25'.",
    }
    assert all(BadParameter("No.", "So.", "Ask.").remedy_for(speaker) == "Ask." for speaker in Interface)


def test_a_remedy_in_pieces_survives_copying_and_pickling() -> None:
    told = BadParameter("No.", "So.", ("Leave ", Setting("analyst"), " out."))
    for again in (copy.copy(told), pickle.loads(pickle.dumps(told))):
        assert again.remedy_for(Interface.COMMAND) == "Leave --analyst out."
