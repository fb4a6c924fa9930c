"""Biased coins: what the opponent reaches is what was computed beforehand, and the health tests see nothing."""

from math import log

import pytest

from sfumato.lab.attacks import biased, plots
from sfumato.lab.generators.seeded import Seeded


def test_added_noise_loses_its_privacy_and_consistent_sampling_keeps_it() -> None:
    """30,000 draws: both counts of the worst answers exceed 700, so each seen loss errs by 0.3 once in 10^7 at most."""
    result = biased.run(30_000, Seeded(1))
    added, robust = result.bent
    assert added.exact > 8 * added.promised
    assert round(result.worst_added, 4) == 1.0394 > added.exact  # the reference: thresholds of 60 bits, |z| <= 20/ε
    assert "1.0394" in result.report()
    assert robust.exact <= robust.promised
    for bent in result.bent:
        assert min(bent.first, bent.second) > 600
        assert bent.seen == pytest.approx(bent.exact, abs=0.3)
        assert bent.seen == log(bent.first / bent.second)
    assert [round(loss, 4) for _, loss in result.together] == [0.0647, 0.0989, 0.2039, 0.4153]
    assert result.health.alarms == ()
    assert "silent" in result.report()
    assert plots.biased(result).to_dict()["$schema"].startswith("https://vega.github.io/schema/vega-lite/")
