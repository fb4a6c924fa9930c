"""A person's rows in the copy depend on nobody else's, nor on their order: tried in bulk on the embedded engine alone.

Every other engine's copy is compared with the same definition row for row, which has this property by its form.
"""

import random

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engines.builds import SALT, bounded
from tests.engines.reference import Row, keyed
from tests.engines.test_bounded_copy import PHASES, Database, copied, databases, of_unit, order_rows, own_key, visits


@settings(max_examples=8, deadline=None, phases=PHASES)
@given(databases, st.lists(order_rows, max_size=5), st.integers(0, 3))
def test_replacing_the_rows_of_one_person_changes_only_that_person(
    database: Database, others: list[Row], person: int
) -> None:
    """Remove a person's rows, or put others in their place: under both relations nobody else's rows move."""
    mine = [own_key({**row, "person": person}) for row in others]
    without = [row for row in database["orders"] if row["person"] != person]
    unit = keyed(SALT, "unit", str(person))
    copies = [
        copied({**database, "orders": rows}) for rows in (database["orders"], without, without + mine, mine + without)
    ]
    for table, most in (("orders", 2), ("lines", 3)):
        rest = [rows[table] - of_unit(rows[table], unit) for rows in copies]
        assert all(other == rest[0] for other in rest)
        assert all(of_unit(rows[table], unit).total() <= most for rows in copies)
        assert of_unit(copies[1][table], unit).total() == 0
    assert copies[2] == copies[3]


@settings(max_examples=6, deadline=None, phases=PHASES)
@given(databases, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_the_number_of_threads_change_nothing(database: Database, order: random.Random) -> None:
    shuffled = {name: order.sample(rows, len(rows)) for name, rows in database.items()}
    assert copied(database) == copied(shuffled, threads=2, groups=2048)


def test_threads_and_row_groups_change_nothing_in_a_larger_table() -> None:
    order = random.Random(1)
    rows = [(order.randrange(400), order.randrange(5)) for _ in range(30_000)]
    policy = visits("who", 20, who={"type": "integer"}, x={"type": "integer", "bounds": [0, 4]})
    copies = []
    for threads, groups in ((1, 122_880), (4, 2048)):
        who, x = zip(*rows, strict=True)
        copies.append(bounded(policy, {"visits": pa.table({"who": who, "x": x})}, threads=threads, groups=groups))
        order.shuffle(rows)
    assert copies[0] == copies[1]
    assert copies[0]["visits"].total() == 400 * 20
