"""Linking finds people by what they have in common with themselves; groups protect until they agree."""

from fractions import Fraction

import numpy as np
import pytest

from sfumato.lab.attacks import linkage
from sfumato.lab.attacks.linkage import People, link
from sfumato.lab.generators.seeded import Seeded


def _people(*rows: tuple[int, int, int, bool]) -> People:
    postcode, birthday, sex, diagnosis = (np.array(column) for column in zip(*rows, strict=True))
    return People(postcode, birthday, sex, diagnosis)


def test_whoever_is_alone_is_found() -> None:
    found = link(_people((1, 5, 0, True), (1, 5, 0, False), (2, 5, 0, True), (1, 5, 1, False)), "all", 1, 1)
    assert (found.least_group, found.unique, found.told) == (1, Fraction(1, 2), Fraction(1, 2))


def test_a_group_that_agrees_has_told_of_everyone_in_it() -> None:
    found = link(_people((1, 5, 0, True), (1, 5, 0, True), (2, 5, 0, True), (2, 5, 0, False)), "all", 1, 1)
    assert (found.least_group, found.unique, found.told) == (2, Fraction(0), Fraction(1, 2))


def test_coarser_attributes_merge_people_and_never_part_them() -> None:
    people = linkage.town(5_000, Seeded(1))
    sizes = [len(np.unique(people.quasi_identifier(codes, days))) for _, codes, days in linkage.COARSENINGS]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(people.quasi_identifier(1, 1))) == len(
        set(zip(people.postcode, people.birthday, people.sex, strict=True))
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_town_is_found_by_three_attributes_and_hidden_from_the_same_attacker_by_noise(seed: int) -> None:
    result = linkage.run(20_000, Seeded(seed))
    # 17 of the 200 million pairs are expected in one of 11,680,000 cells; for 400 people to share theirs there must be
    # 134, whose probability is below (17e/134)^134 < e^-100
    assert result.links[0].unique > Fraction(98, 100)
    assert [one.unique for one in result.links] == sorted((one.unique for one in result.links), reverse=True)
    # Hoeffding, 3,700 ill and 15,000 well at least: 0.045 for the one and 0.023 for the other fail with < 7e-7
    assert result.advantage < result.bound + 0.068
    assert result.advantage > 0
    assert result.links[0].published in result.report()
