"""Run every law of the engines on Spark, in one session, and compare 300 questions with DuckDB's: takes long.

`python -m tests.engines.spark` runs all of it; words behind it choose tests, as `-k` does: `… spark same_answers`.
"""

import os
import sys

import pytest
from tests.engines.spark.running import CLUSTER, FLAGS, LAWS, MORE

SUITES = (
    "truncation_losses",
    "candidate_bounds",
    "bounded_copy",
    "engine",
    "public",
    "same_answers",
    "flow",
    "totality_numbers",
    "totality_texts",
    "totality_times",
    "two_owners",
    "noisy_values",
)


def main() -> None:
    os.environ |= {**FLAGS, "SFUMATO_SPARK_LAWS": "1"}
    chosen = " or ".join(sys.argv[1:])
    options = ["-q", "-p", "no:cacheprovider", "-o", "python_files=test_*.py laws_*.py", "--durations=10"]
    options += ["-k", f"(spark) and ({chosen})" if chosen else "spark"]
    sys.exit(pytest.main([*options, *LAWS, *MORE, *(f"tests/engines/test_{name}.py" for name in SUITES), *CLUSTER]))


if __name__ == "__main__":
    main()
