"""Bugs to plant in the accounting of mixtures, cut samples, trees and selections."""

from tests.planted.bug import Bug, planned

_LAWS = "tests/accounting/test_mixtures.py"

COMPOSITION_BUGS: tuple[Bug, ...] = (
    planned(
        "a cut sample swaps nobody",
        _LAWS,
        (
            "accounting/rdp.py",
            "PoissonSampled(cut.most_rate, group_event(event.event, 2)), order)",
            "PoissonSampled(cut.most_rate, event.event), order)",
        ),
    ),
    planned(
        "a tree is one level too low",
        _LAWS,
        ("accounting/event.py", "max(self.steps).bit_length())", "max(1, max(self.steps).bit_length() - 1))"),
    ),
    planned(
        "the best of runs costs as one run",
        _LAWS,
        ("accounting/best_of.py", "min(runs, pure) + (1 + event.shape) * min(beside, pure)", "min(runs, pure)"),
    ),
    planned(
        "permute-and-flip is charged as bounded range",
        "tests/mechanisms/test_permute_and_flip.py",
        ("mechanisms/permute_and_flip.py", "return LaplaceBounded(self", "return BoundedRange(self"),
        ("mechanisms/permute_and_flip.py", "import LaplaceBounded", "import BoundedRange, LaplaceBounded"),
    ),
)
