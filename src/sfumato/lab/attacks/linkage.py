"""The linkage attack: a table without names, joined with a register that has them [Sweeney 1997].

Postcode, day of birth and sex are each harmless, and together nearly a name. Coarser attributes make groups instead of
people; but a group of k in which everyone has the same diagnosis has told it of all k [Machanavajjhala et al. 2006].
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.lab.attacks.bounds import advantage, sampling_margin
from sfumato.lab.generators.seeded import Mask, one_in
from sfumato.mechanisms.laplace import Laplace
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import UniformInteger

POSTCODES = 200
DAYS = 80 * 365
RARE_ONE_IN = 5
"""How many have the diagnosis."""
COARSENINGS = (
    ("postcode, day of birth, sex", 1, 1),
    ("postcode, month of birth, sex", 1, 30),
    ("postcode, year of birth, sex", 1, 365),
    ("district, year of birth, sex", 10, 365),
    ("district, decade of birth, sex", 10, 3650),
)
"""Published coarsenings: a name, postcodes per district, days per period of birth."""
EPSILON = Fraction(1, 2)

LinkageKeys = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """A synthetic town: the columns of a public register and those of the clinic."""

    postcode: LinkageKeys
    birthday: LinkageKeys
    sex: LinkageKeys
    diagnosis: Mask

    def quasi_identifier(self, postcodes: int, days: int) -> LinkageKeys:
        """Return one number per person for what is left of the attributes after coarsening."""
        periods = DAYS // days + 1
        keys: LinkageKeys = ((self.postcode // postcodes) * periods + self.birthday // days) * 2 + self.sex
        return keys


@dataclass(frozen=True, slots=True)
class Link:
    """One coarsening of the published table, and what joining it with the register told."""

    published: str
    least_group: int
    unique: Fraction
    """The share of people who are alone with their attributes: name and diagnosis are joined for certain."""
    told: Fraction
    """The share whose diagnosis is certain, because all who look like them have the same."""


@dataclass(frozen=True, slots=True)
class Linkage:
    """All coarsenings, and the same attacker in front of sfumato."""

    people: int
    links: tuple[Link, ...]
    loss: PrivacyLoss
    advantage: float
    margin: float
    """How far the measured advantage may be off, at 95 %."""

    @property
    def bound(self) -> float:
        """Upper bound from the guarantee."""
        return advantage(self.loss)

    def report(self) -> str:
        """Return what was recovered, line by line."""
        return "\n".join(
            [
                f"Linkage: a table of {self.people:,} patients without names, joined with a register that has them",
                "",
                "  published                        least group   re-identified   diagnosis certain",
                *(
                    f"  {link.published:31}  {link.least_group:11}   {float(link.unique):13.1%}   "
                    f"{float(link.told):17.1%}"
                    for link in self.links
                ),
                "",
                f"The same attacker in front of sfumato asks for the diagnosis by all attributes, at {self.loss}",
                f"for the whole histogram: advantage {self.advantage:.3f} ± {self.margin:.3f}, bound {self.bound:.3f},",
                "and certain about no one.",
            ]
        )


def town(people: int, source: Source) -> People:
    """Make up a town."""
    return People(
        postcode=UniformInteger(POSTCODES).draw(people, source),
        birthday=UniformInteger(DAYS).draw(people, source),
        sex=UniformInteger(2).draw(people, source),
        diagnosis=one_in(RARE_ONE_IN, people, source),
    )


def link(people: People, published: str, postcodes: int, days: int) -> Link:
    """Join table and register on what was published."""
    keys = people.quasi_identifier(postcodes, days)
    _, group, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    ill = np.bincount(group, weights=people.diagnosis).astype(np.int64)
    same = (ill == 0) | (ill == sizes)
    total = len(keys)
    return Link(
        published,
        least_group=int(sizes.min()),
        unique=Fraction(int((sizes == 1).sum()), total),
        told=Fraction(int(sizes[same].sum()), total),
    )


def ask_instead(people: People, loss: PrivacyLoss, source: Source) -> float:
    """Count the diagnosis by all attributes, privately, and guess "ill" of everyone whose cell shows at least one.

    Each person is in one cell, and a changed diagnosis moves that cell by one: the whole histogram costs ε once.
    """
    cells, group = np.unique(people.quasi_identifier(1, 1), return_inverse=True)
    ill = np.bincount(group, weights=people.diagnosis, minlength=len(cells)).astype(np.int64)
    noisy = Laplace(1, 1 / loss.epsilon, Neighbours.REPLACE).release(ill, source)
    guesses = noisy[group] >= 1
    return float(guesses[people.diagnosis].mean() - guesses[~people.diagnosis].mean())


def run(people: int, source: Source) -> Linkage:
    """Link a made-up town."""
    made_up, loss = town(people, source), PrivacyLoss(EPSILON)
    links = tuple(link(made_up, *coarsening) for coarsening in COARSENINGS)
    ill = int(made_up.diagnosis.sum())
    return Linkage(people, links, loss, ask_instead(made_up, loss, source), sampling_margin(ill, people - ill))
