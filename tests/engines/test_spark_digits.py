"""Sums on Spark: no row that a FILTER leaves out makes a statement fail, however far its value lies from the facts."""

import re

import pytest

from sfumato.engines.spark.dialect import SPARK
from sfumato.language.facts import STORED_LIMIT, Facts, Kind
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type


@pytest.mark.parametrize("bits", range(1, 126))
def test_what_is_added_up_has_digits_for_every_integer_of_64_bits_and_for_ten_more_than_its_facts(bits: int) -> None:
    facts = Facts(Type.INTEGER, Kind.INTEGER, low=0, high=1 << bits)
    sql = SPARK.aggregate(Aggregation.SUM, "v", facts, False)
    digits = re.search(r"DECIMAL\((\d+),0\)", sql)
    if digits is None:
        assert bits <= 22  # 64-bit integers are added as they are
    elif 1 << bits < STORED_LIMIT:
        assert 10 ** int(digits[1]) > STORED_LIMIT
    else:
        assert int(digits[1]) == min(len(str(1 << bits)) + 10, 38)
