"""`make quick` runs the tests that mirror a changed file."""

import pytest
from tests import quick


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("src/sfumato/errors.py", {"src/sfumato/errors.py", "tests/test_errors.py"}),
        ("src/sfumato/planning/aggregates/sum.py", {"src/sfumato/planning/aggregates/sum.py", "tests/planning"}),
        (
            "src/sfumato/server/console/templates/page.html",
            {"tests/server/test_console.py", "tests/server/test_templates.py"},
        ),
        ("src/sfumato/server/grants.py", {"src/sfumato/server/grants.py", "tests/server"}),
        ("src/sfumato/analysis/rounding.py", {"src/sfumato/analysis/rounding.py", "tests/analysis"}),
        ("src/sfumato/commands/demo.py", {"src/sfumato/commands/demo.py", "tests/test_cli.py"}),
        ("src/sfumato/demo/tour.py", {"src/sfumato/demo/tour.py", "tests/test_demo.py"}),
        ("tests/paths/test_forks.py", {"tests/paths/test_forks.py"}),
        ("docs/index.md", set()),
    ],
)
def test_a_change_runs_the_tests_that_mirror_it(changed: str, tests: set[str]) -> None:
    assert set(quick.tests_for([changed])) == {*quick.ALWAYS, *tests}
