"""Every attack runs by name, says the same for the same seed, and draws a picture when it is asked to."""

from pathlib import Path

import pytest

from sfumato.errors import BadParameter
from sfumato.lab import commands
from sfumato.lab.attacks import averaging, floating, linkage, local_noise, plots, reconstruction, tracker
from sfumato.lab.commands import ATTACKS
from sfumato.lab.generators.seeded import Seeded, coins, one_in, single, subsets


def test_the_attacks_have_the_names_of_the_command_line() -> None:
    assert list(ATTACKS) == [
        "reconstruct",
        "difference",
        "average",
        "link",
        "float",
        "randomness",
        "encrypted",
        "local",
    ]
    assert all(attack.description for attack in ATTACKS.values())


@pytest.mark.parametrize("name", ["difference", "link"])
def test_the_same_seed_says_the_same_and_another_something_else(name: str) -> None:
    assert ATTACKS[name](1, None) == ATTACKS[name](1, None) != ATTACKS[name](2, None)


def test_a_command_saves_its_plot_and_says_where(tmp_path: Path) -> None:
    path = tmp_path / "linked.svg"
    assert str(path) in ATTACKS["link"](1, path)
    assert path.read_text(encoding="utf-8").startswith("<svg")


def test_what_cannot_be_drawn_is_refused_before_the_attack_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linkage, "run", lambda *_: pytest.fail("it ran"))
    with pytest.raises(BadParameter, match="no kind of picture"):
        ATTACKS["link"](1, tmp_path / "linked.docx")
    monkeypatch.setattr(commands, "find_spec", lambda _: None)
    with pytest.raises(BadParameter, match=r"sfumato\[plot\]"):
        ATTACKS["link"](1, tmp_path / "linked.svg")


def test_a_folder_that_is_missing_is_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="could not be written"):
        ATTACKS["link"](1, tmp_path / "missing" / "linked.json")


def test_every_result_has_a_picture_that_vega_accepts() -> None:
    source = Seeded(1)
    pictures = [
        plots.reconstruction(reconstruction.run(100, source)),
        plots.differencing(tracker.run(80, source)),
        plots.averaging(averaging.run(60, 4, source)),
        plots.local_noise(local_noise.run(4, source)),
        plots.linkage(linkage.run(500, source)),
        plots.floating(floating.run(50, source)),
    ]
    for picture in pictures:
        specification = picture.to_dict()  # validates against the schema
        assert specification["$schema"].startswith("https://vega.github.io/schema/vega-lite/")


def test_made_up_data_is_repeatable_and_fair() -> None:
    assert (coins(100, Seeded(1)) == coins(100, Seeded(1))).all()
    assert Seeded(1).read(10_000) == Seeded(1).read(10_000) != Seeded(2).read(10_000)
    # Hoeffding, 40,000 coins: 2·exp(-2 · 40,000 · 0.014²) < 4e-7
    assert abs(coins(40_000, Seeded(3)).mean() - 0.5) < 0.014
    assert abs(one_in(5, 40_000, Seeded(4)).mean() - 0.2) < 0.014
    assert subsets(3, 7, Seeded(5)).shape == (3, 7)
    assert single(2, 4).tolist() == [False, False, True, False]
