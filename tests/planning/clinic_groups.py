"""Private queries made by hand, as the analysis would make them of a table of visits."""

from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.private_query import Contribution, Group, Key, PrivateQuery, RequestedAggregate
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import InputNode, Item, ProjectNode, ScanNode
from sfumato.language.scalar import Scalar, column
from sfumato.planning.planner import PriceTarget
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type

UNIT = column("visits", "patient_id", Facts(Type.INTEGER, Kind.UNIT, nullable=False))
AGE = column("visits", "age", Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=120))
COST = column("visits", "cost", Facts(Type.DECIMAL, Kind.INTEGER, step=Fraction(1, 100), low=0, high=500_000))
WEIGHT = column(
    "visits", "weight", Facts(Type.INTEGER, Kind.INTEGER, low=-(1 << 63), high=(1 << 63) - 1, declared_high=False)
)
RATIO = column("visits", "ratio", Facts(Type.DECIMAL, Kind.REAL))
DEPT = column("visits", "dept", Facts(Type.TEXT, Kind.TEXT, nullable=False))
URGENT = column("visits", "urgent", Facts(Type.BOOLEAN, Kind.BOOLEAN, nullable=False))
ROWS = ScanNode(
    "visits", "visits", tuple((name, name, Facts(Type.TEXT, Kind.TEXT)) for name in ("age", "cost", "dept"))
)

PUBLIC_DEPT = Key("dept", DEPT, ("er", "icu", "surgery"))
SECRET_DEPT = Key("dept", DEPT, None)


def asked(
    aggregation: str, argument: Scalar | None = None, *, distinct: bool = False, where: Scalar | None = None
) -> Aggregate[Scalar]:
    """Return an aggregate without its name."""
    return Aggregate(Aggregation(aggregation), () if argument is None else (argument,), distinct, where)


def group_of(
    *measures: Aggregate[Scalar],
    keys: tuple[Key, ...] = (),
    rows: int = 20,
    groups: int = 3,
    label: str = "group",
) -> Group:
    """Return a group in which the aggregates are called a1, a2, …"""
    named = tuple(RequestedAggregate(f"a{place}", measure) for place, measure in enumerate(measures, 1))
    return Group(label, ROWS, UNIT, True, keys, named, Contribution(rows, groups, False, groups < rows))


def private_of(*groups: Group, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> PrivateQuery:
    """Return the query that shows every key and aggregate of its groups as it is."""
    items = []
    for group in groups:
        items += [Item(key.name, column(group.label, key.name, key.scalar.facts)) for key in group.keys]
        for one in group.asked:
            argument, counts = one.aggregate.argument, one.aggregate.function is Aggregation.COUNT
            type = Type.INTEGER if argument is None or counts else argument.facts.type
            items.append(Item(one.name, column(group.label, one.name, Facts(type, Kind.INTEGER))))
    label = groups[0].label if groups else "nothing"
    given = InputNode(label, tuple((item.name, item.scalar.facts) for item in items), None)
    return PrivateQuery(
        groups, ProjectNode(given, "answer", tuple(items)), tuple(item.name for item in items), neighbours
    )


def price(epsilon: object, delta: object = 0) -> PriceTarget:
    """Return the wish for this loss."""
    return PriceTarget(Fraction(str(epsilon)), Fraction(str(delta)), (), PrivacyLoss(Fraction(100)))


def margins(cap: object = 100, delta: object = 0, **targets: object) -> PriceTarget:
    """Return the wish for these margins."""
    within = tuple((name, Fraction(str(margin))) for name, margin in targets.items())
    return PriceTarget(None, Fraction(str(delta)), within, PrivacyLoss(Fraction(str(cap))))
