"""Noise at local sensitivity gives everybody away; smooth noise stays within its guarantee."""

from sfumato.lab.attacks import local_noise
from sfumato.lab.generators.seeded import Seeded


def test_the_amount_of_noise_is_the_secret() -> None:
    """With noise of scale 100,000 an answer is exactly 0 with probability 5e-6: 300 of 300 are right."""
    result = local_noise.run(300, Seeded("local"))
    assert result.local == 1
    # P[Binomial(300, 0.7311) > 260] < 1e-7
    assert result.smooth * 300 <= 260
    assert "100%" in result.report()
