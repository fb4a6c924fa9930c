"""Local privacy: each person adds the noise on a device of their own, and the collector sees only noisy reports."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.local.choosing import choose
    from sfumato.local.collector import Collector, read_tally, tally_table
    from sfumato.local.consistent import ConsistentShares, most_likely, norm_sub
    from sfumato.local.direct import DirectResponse
    from sfumato.local.epochs import Memo
    from sfumato.local.hadamard import HadamardResponse
    from sfumato.local.hashed import HashedResponse
    from sfumato.local.mean import HybridMean, OneBitMean, PiecewiseMean
    from sfumato.local.oracle import Oracle
    from sfumato.local.prefixes import Found, Plan, Prefixes, plan
    from sfumato.local.projective import ProjectiveResponse
    from sfumato.local.rappor import Rappor
    from sfumato.local.shuffle import Shuffled
    from sfumato.local.sketch import CountMeanSketch, HadamardSketch
    from sfumato.local.subset import SubsetResponse
    from sfumato.local.tally import Tally
    from sfumato.local.unary import UnaryResponse

__all__ = [
    "Collector",
    "ConsistentShares",
    "CountMeanSketch",
    "DirectResponse",
    "Found",
    "HadamardResponse",
    "HadamardSketch",
    "HashedResponse",
    "HybridMean",
    "Memo",
    "OneBitMean",
    "Oracle",
    "PiecewiseMean",
    "Plan",
    "Prefixes",
    "ProjectiveResponse",
    "Rappor",
    "Shuffled",
    "SubsetResponse",
    "Tally",
    "UnaryResponse",
    "choose",
    "most_likely",
    "norm_sub",
    "plan",
    "read_tally",
    "tally_table",
]
_HOMES = {
    "Collector": "collector",
    "ConsistentShares": "consistent",
    "CountMeanSketch": "sketch",
    "DirectResponse": "direct",
    "Found": "prefixes",
    "HadamardResponse": "hadamard",
    "HadamardSketch": "sketch",
    "HashedResponse": "hashed",
    "HybridMean": "mean",
    "Memo": "epochs",
    "OneBitMean": "mean",
    "Oracle": "oracle",
    "PiecewiseMean": "mean",
    "Plan": "prefixes",
    "Prefixes": "prefixes",
    "ProjectiveResponse": "projective",
    "Rappor": "rappor",
    "Shuffled": "shuffle",
    "SubsetResponse": "subset",
    "Tally": "tally",
    "UnaryResponse": "unary",
    "choose": "choosing",
    "most_likely": "consistent",
    "norm_sub": "consistent",
    "plan": "prefixes",
    "read_tally": "collector",
    "tally_table": "collector",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sfumato.local' has no attribute {name!r}")
    return getattr(import_module(f"sfumato.local.{_HOMES[name]}"), name)
