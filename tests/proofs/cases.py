"""Small cases, answered by the executable definitions of proofs/rocq: the Python code must give the same answers.

`python -m tests.proofs.check --keep` writes them to tests/proofs/fixtures, each with the digests of its sources.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from hashlib import sha256
from math import inf
from pathlib import Path
from random import Random
from typing import Any

from tests.proofs.rocq import SOURCES, digest, evaluated

from sfumato.accounting.approximate import separate
from sfumato.accounting.event import Approximate, Event, GaussianNoise, LaplaceNoise, Neighbours, Pure
from sfumato.accounting.filter import Filter, rounded_loss
from sfumato.accounting.pure import epsilon_or_infinity

FIXTURES = Path(__file__).with_name("fixtures")
SALT = bytes(range(32))
CAPS = (1, 2, 4)
PEOPLE = 700


@dataclass(frozen=True, slots=True)
class Fixture:
    """Cases with the answers of Rocq, and the digests of the sources that gave them."""

    sources: dict[str, str]
    cases: list[Any]
    answers: list[Any]

    @staticmethod
    def read(name: str) -> "Fixture":
        return Fixture(**json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8")))

    def write(self, name: str) -> None:
        text = json.dumps(asdict(self), separators=(",", ":"))
        (FIXTURES / f"{name}.json").write_text(text.replace('"answers"', '\n"answers"') + "\n", encoding="utf-8")


def _made(
    requires: str, cases: list[Any], kind: str, spelled: Sequence[str], answer: str, folder: Path, before: str = ""
) -> Fixture:
    """Give Rocq the cases as one list, and keep what it answers to each."""
    definitions = f"{before}\nDefinition cases : list ({kind}) := [{'; '.join(spelled)}]."
    found = evaluated(folder, requires, definitions, f"map ({answer}) cases")
    assert isinstance(found, list)
    assert len(found) == len(cases)
    names = [f"{name}.v" for name in requires.split()]
    return Fixture({name: digest(SOURCES / name) for name in names}, cases, found)


def _listed(items: Sequence[object]) -> str:
    return f"[{'; '.join(map(str, items))}]"


def _fraction(value: Fraction) -> str:
    return f"({value.numerator} # {value.denominator})%Q"


# --- rows ranked by their draws and cut at a cap ---


def own_id(person: int) -> bytes:
    """Return the opaque id of a person: 128 bits of a salted hash."""
    return sha256(f"{SALT.hex()}unit:{person}".encode()).digest()[:16]


def draw(person: int, row: str, earlier: int) -> int:
    """Return the draw of a row with so many equal ones before it: SHA-256 of the person's id and the row."""
    first = _hash(f"{int.from_bytes(own_id(person), 'big'):X}#{row}")
    return first if earlier == 0 else _hash(f"again:{first:X}:{earlier + 1}")


def _hash(text: str) -> int:
    return int(sha256(text.encode()).hexdigest()[:32], 16)


def _with_draws(person: int, rows: list[int], written: Callable[[int], str]) -> str:
    """Spell the rows of a person, and the draw of each of equal rows."""
    draws = [
        f"({row}%nat, {earlier}%nat, {draw(person, written(row), earlier):#x})"
        for row, count in sorted(Counter(rows).items())
        for earlier in range(count)
    ]
    return f"{_listed([f'{row}%nat' for row in rows])}, {_listed(draws)}"


_SAME = "(Nat.eqb (fst p) (fst (fst e)) && Nat.eqb (snd p) (snd (fst e)))%bool"
_DRAW = f"fun p => match find (fun e => {_SAME}) (snd c) with Some e => snd e | None => -1 end"
_ROWS = "nat * list nat * list (nat * nat * Z)"


def rank_and_cut(folder: Path) -> Fixture:
    random, cases, spelled = Random(1), [], []
    for place, cap in enumerate(CAPS):
        for person in range(PEOPLE):
            rows = [random.randrange(random.choice((1, 3, 8))) for _ in range(random.randrange(9))]
            cases.append([cap, rows])
            spelled.append(f"({cap}%nat, {_with_draws(place * PEOPLE + person, rows, lambda row: f':{row}')})")
    answer = f"fun c => cut Nat.eq_dec ({_DRAW}) (fst (fst c)) (snd (fst c))"
    return _made("Copy", cases, _ROWS, spelled, answer, folder)


UNIQUE_CAP, NO_KEY = 2, 9


def key_of(row: int) -> int | None:
    """Return the key of a row, which is written as ten times its key and a digit; a key of 9 is no key."""
    return None if row // 10 == NO_KEY else row // 10


def unique_rows(folder: Path) -> Fixture:
    random, cases, spelled = Random(6), [], []
    for person in range(PEOPLE):
        rows = [10 * random.choice((0, 1, 2, NO_KEY)) + random.randrange(2) for _ in range(random.randrange(8))]
        cases.append(rows)
        written = _with_draws(person, rows, lambda row: f":{'-' if key_of(row) is None else key_of(row)}:{row % 10}")
        spelled.append(f"({UNIQUE_CAP}%nat, {written})")
    key = f"fun r => if Nat.eqb (Nat.div r 10%nat) {NO_KEY}%nat then None else Some (Nat.div r 10%nat)"
    answer = f"fun c => choose Nat.eq_dec ({_DRAW}) Nat.eq_dec (fst (fst c)) [{key}] (snd (fst c))"
    return _made("Copy", cases, _ROWS, spelled, answer, folder)


# --- decisions of the pure filter ---


def filter_decisions(folder: Path) -> Fixture:
    random, cases, spelled = Random(2), [], []
    for _ in range(2000):
        unit = random.choice((1, 2, 3, 7, 10, 12))
        budget = Fraction(random.randrange(1, 12), unit)
        costs = [
            Fraction(random.randrange(1, 9), random.choice((unit, 2 * unit, 3, 10)))
            for _ in range(random.randrange(1, 9))
        ]
        cases.append([str(budget), [str(cost) for cost in costs]])
        spelled.append(f"({_fraction(budget)}, {_listed([_fraction(cost) for cost in costs])})")
    return _made("Filter", cases, "Q * list Q", spelled, "fun c => decisions (fst c) 0%Q (snd c)", folder)


# --- decisions of the whole filter: deltas, and pure losses or moments ---

BUDGETS = tuple(
    Filter(Fraction(epsilon), Fraction(delta)) for epsilon, delta in (("1/2", "1e-6"), ("3", "1e-6"), ("1", "1e-9"))
)
EVENTS: tuple[Event, ...] = (
    Pure(Fraction(1, 10), Neighbours.ADD_REMOVE),
    Pure(Fraction(1, 3), Neighbours.ADD_REMOVE),
    LaplaceNoise(1, Fraction(20), Neighbours.ADD_REMOVE),
    GaussianNoise(1, Fraction(100), Neighbours.ADD_REMOVE),
    GaussianNoise(1, Fraction(900), Neighbours.ADD_REMOVE),
    Approximate(Pure(Fraction(1, 20), Neighbours.ADD_REMOVE), Fraction(1, 10**7)),
    Approximate(GaussianNoise(1, Fraction(400), Neighbours.ADD_REMOVE), Fraction(1, 10**10)),
)


def ledger(folder: Path) -> Fixture:
    """Events come with the losses that the code gives them: the rule is compared, not the losses."""
    random, cases, spelled = Random(5), [], []
    names = [f"(e{budget}_{event})" for budget in range(len(BUDGETS)) for event in range(len(EVENTS))]
    lines = [
        f"Definition {names[place * len(EVENTS) + at][1:-1]} : option Q * Q * Q := {_losses(event, budget)}."
        for place, budget in enumerate(BUDGETS)
        for at, event in enumerate(EVENTS)
    ]
    for _ in range(400):
        place = random.randrange(len(BUDGETS))
        likely = random.sample(range(len(EVENTS)), random.randrange(1, 4))
        asked = [random.choice(likely) for _ in range(random.randrange(5, 60))]
        cases.append([place, asked])
        spelled.append(f"({_rule(BUDGETS[place])}, {_listed([names[place * len(EVENTS) + at] for at in asked])})")
    answer = (
        "fun c => match c with (epsilon, most, capacity, events) => "
        "ledger_decisions epsilon most capacity (Some 0%Q) 0%Q 0%Q events end"
    )
    kind = "Q * Q * Q * list (option Q * Q * Q)"
    return _made("Renyi", cases, kind, spelled, answer, folder, "\n".join(lines))


def _rule(budget: Filter) -> str:
    assert budget.capacity is not None
    numbers = (budget.epsilon, budget.for_approximate, Fraction(budget.capacity))
    return ", ".join(_fraction(number) for number in numbers)


def _losses(event: Event, budget: Filter) -> str:
    core, delta = separate(event, "Rényi")
    bound, moment = epsilon_or_infinity(core), rounded_loss(core, budget.order or 2)
    pure = "None" if bound == inf else f"Some {_fraction(Fraction(bound))}"
    return f"({pure}, {_fraction(Fraction(moment))}, {_fraction(delta)})"


# --- the grid ---


def grid(folder: Path) -> Fixture:
    random, cases, spelled = Random(3), [], []
    for _ in range(3000):
        step = Fraction(random.randrange(1, 8), random.choice((1, 2, 3, 5, 8, 10)))
        low = Fraction(random.randrange(-60, 40), random.choice((1, 3, 4)))
        high = low + Fraction(random.randrange(80), random.choice((1, 3, 4)))
        value = random.choice(
            (
                step * Fraction(random.randrange(-41, 41), 2),  # on the grid, or halfway
                Fraction(random.randrange(-400, 400), random.choice((1, 2, 7, 16))),
            )
        )
        cases.append([str(low), str(high), str(step), str(value)])
        spelled.append(f"({_fraction(low)}, {_fraction(high)}, {_fraction(step)}, {_fraction(value)})")
    integer = "match to_grid low high step (Some v) with Some k => k | None => 0 end"
    answer = f"fun c => match c with (low, high, step, v) => {integer} end"
    return _made("Grid", cases, "Q * Q * Q * Q", spelled, answer, folder)


# --- the law of the smaller noise, given the larger one ---

RATIOS = tuple(Fraction(*pair) for pair in ((1, 10), (1, 4), (1, 3), (1, 2), (2, 3), (9, 10)))
NOISES = range(-3, 4)
FINER = range(-5, 6)


def conditional(folder: Path) -> Fixture:
    keys = [(q1, q2, z1) for q1 in RATIOS for q2 in RATIOS if q2 < q1 for z1 in NOISES]
    cases = [[str(q1), str(q2), z1] for q1, q2, z1 in keys]
    spelled = [f"({_fraction(q1)}, {_fraction(q2)}, {z1})" for q1, q2, z1 in keys]
    mass = "let p := conditionalQ q1 q2 z1 z2 in (Qnum p, Zpos (Qden p))"
    answer = f"fun c => match c with (q1, q2, z1) => map (fun z2 => {mass}) {_listed(FINER)} end"
    return _made("Refinement", cases, "Q * Q * Z", spelled, answer, folder)


# --- values that people serve, and rows of two people ---

LIMITS = (1, 2, 3)


def flow(folder: Path) -> Fixture:
    random, cases, spelled = Random(4), [], []
    for _ in range(1500):
        pairs = [[person, value] for person in range(4) for value in range(6) if random.random() < 0.35]
        random.shuffle(pairs)
        cases.append(pairs)
        spelled.append(_listed([f"([{person}%nat], {value}%nat)" for person, value in pairs]))
    limits = _listed([f"{limit}%nat" for limit in LIMITS])
    answer = f"fun c => map (fun limit => most Nat.eq_dec Nat.eq_dec limit c) {limits}"
    return _made("Flow", cases, "list (list nat * nat)", spelled, answer, folder)


FIXTURE_OF: dict[str, Callable[[Path], Fixture]] = {
    "rank_and_cut": rank_and_cut,
    "unique_rows": unique_rows,
    "filter": filter_decisions,
    "ledger": ledger,
    "grid": grid,
    "conditional": conditional,
    "flow": flow,
}
