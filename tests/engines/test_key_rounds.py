"""The statement of a later round of key selection on every engine: found keys are left out, whatever they are."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.engines.engines import ENGINES, UnderLaw

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.engines.engine import Engine
from sfumato.mechanisms.key_rounds import KeyRounds
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.planning.plan import Plan
from sfumato.planning.planner import make_plan, parse_price_target
from sfumato.policy.reading import read_policy
from sfumato.query.parse import parse
from sfumato.release.key_rounds import add_later_rounds
from sfumato.release.noisy import NoisyGroup, NoisyResult

MOST = 3
WORDS = ("it's", "back\\slash", "é", "E", "e", " e", "%_", '"q"', "new\nline", "5")
FOUND = tuple((word, often) for word in WORDS[:8] for often in (0, 1))
"""All keys of the first eight words: so nobody has more keys left than count."""
ONCE = RenyiSelection(Fraction(1, 1000), MOST, (8,), (Fraction(1),), Neighbours.ADD_REMOVE)
POLICY: dict[str, Any] = {
    "name": "words",
    "budget": {"epsilon": 10, "delta": "1e-3"},
    "tables": {
        "said": {
            "unit": "who",
            "rows_per_unit": 12,
            "groups_per_unit": MOST,
            "columns": {
                "who": {"type": "text"},
                "word": {"type": "text"},
                "often": {"type": "integer", "bounds": [0, 2000000]},
            },
        }
    },
}
ROWS = [(f"p{person}", WORDS[(person * place) % 10], place % 2) for person in range(1, 8) for place in range(9)]


def _counts(engine: Engine, sql: str, found: tuple[tuple[Any, ...], ...]) -> Counter[tuple[Any, ...]]:
    policy = read_policy({**POLICY, "source": "parquet:x", "ledger": "sqlite:y"})
    query = parse(sql, engine.catalog)
    with engine.public.one_question():
        private = analyse(query, engine.catalog, engine.public)
    loss = PrivacyLoss(Fraction(10), Fraction(1, 1000))
    plan = make_plan(private, parse_price_target("2", None, "1e-6", query.options, policy.budget, loss))
    (group,) = plan.groups
    counted: list[Counter[tuple[Any, ...]]] = []

    def run(stage: Plan) -> NoisyResult:
        (exact,) = engine.run(engine.prepare(stage)).groups
        units = np.asarray(exact.units).tolist()
        counted.append(Counter(dict(zip(exact.keys, units, strict=True))))
        return NoisyResult((NoisyGroup((), ()),), 0)

    plan = replace(plan, groups=(replace(group, selection=KeyRounds((ONCE, ONCE))),))
    add_later_rounds(plan, NoisyResult((NoisyGroup(found, ()),), 0), run)
    return counted[0]


@pytest.mark.parametrize("under_law", ENGINES, ids=lambda engine: engine.dialect.name)
def test_every_engine_counts_people_in_the_keys_that_were_not_found(under_law: UnderLaw, tmp_path: Path) -> None:
    names = ("who", "word", "often")
    types = (pa.string(), pa.string(), pa.int64())
    table = pa.table({name: pa.array([row[at] for row in ROWS], types[at]) for at, name in enumerate(names)})
    engine = under_law.opened(tmp_path, POLICY, {"said": table})
    try:
        by_word = _counts(engine, "SELECT DISTINCT word FROM said", tuple((word,) for word in WORDS[:8]))
        kept = {(who, word) for who, word, _ in ROWS if word not in WORDS[:8]}
        assert by_word == Counter((word,) for _, word in kept)
        by_both = _counts(engine, "SELECT word, often FROM said GROUP BY word, often", FOUND)
        left = {row for row in ROWS if row[1:] not in FOUND}
        assert by_both == Counter((word, often) for _, word, often in left)
        whole = _counts(engine, "SELECT DISTINCT word FROM said", ())
        people = {who for who, _, _ in ROWS}
        own = {who: len({word for one, word, _ in ROWS if one == who}) for who in people}
        assert sum(whole.values()) == sum(min(MOST, number) for number in own.values())
    finally:
        engine.close()
