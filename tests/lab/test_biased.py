"""Biased coins: what the opponent reaches is what was computed beforehand, and the health tests see nothing."""

from math import log

import pytest

from sfumato.lab.attacks import biased, plots
from sfumato.lab.generators.seeded import Seeded


def test_added_noise_loses_its_privacy_and_consistent_sampling_keeps_it() -> None:
    """30,000 draws: both counts of the worst answers exceed 700, so each seen loss errs by 0.3 once in 10^7 at most."""
    found = biased.run(30_000, Seeded(1))
    added, robust = found.bent
    assert added.exact > 8 * added.promised
    assert round(found.worst_added, 4) == 1.0394 > added.exact  # the reference: thresholds of 60 bits, |z| <= 20/ε
    assert "1.0394" in found.report()
    assert robust.exact <= robust.promised
    for one in found.bent:
        assert min(one.first, one.second) > 600
        assert one.seen == pytest.approx(one.exact, abs=0.3)
        assert one.seen == log(one.first / one.second)
    assert [round(loss, 4) for _, loss in found.together] == [0.0647, 0.0989, 0.2039, 0.4153]
    assert found.health.alarms == ()
    assert "silent" in found.report()
    assert plots.biased(found).to_dict()["$schema"].startswith("https://vega.github.io/schema/vega-lite/")
