"""The keys of budgets: of the dataset, of roles and of analysts."""

from sfumato.policy.kinds import (
    Default,
    DefaultPrice,
    Described,
    ExactNumber,
    Hashed,
    JsonSchema,
    NameList,
    OneOf,
    PolicyKey,
    Required,
    Section,
    WholeNumber,
)
from sfumato.policy.policy import MAX_CHARGES_PER_ACCOUNT, UNLIMITED, CohortCap, Period

MAX_TABLES = 500
MAX_ANALYSTS = 10_000
MAX_ROLES = 1000
OWNER_CHOOSES = "The budget has no default: the owner has to choose it."
ADD_EPSILON = Required(OWNER_CHOOSES, "Add epsilon, for example epsilon = 1.")
_EPSILON = ExactNumber(
    "number above 0",
    {"exclusiveMinimum": 0},
    lambda epsilon: epsilon > 0,
    "Epsilon must be above zero: with epsilon = 0 no answer can depend on the data.",
    "Write a positive number, for example epsilon = 1.",
)
_PROBABILITY: JsonSchema = {"minimum": 0, "exclusiveMaximum": 1}
_DELTA = ExactNumber(
    "number from 0 to below 1",
    _PROBABILITY,
    lambda delta: 0 <= delta < 1,
    "Delta is a probability, at least 0 and below 1; with delta = 1 there is no protection.",
    "Write a number far below one in the number of people, for example 1e-6.",
)
_EVERY = OneOf(
    tuple(Period),
    {"daily": "day", "weekly": "week", "monthly": "month", "quarterly": "quarter", "yearly": "year", "annual": "year"},
    Period,
)
BUDGET = Section(
    (
        PolicyKey("epsilon", _EPSILON, ADD_EPSILON, "The maximum epsilon of all answers together.", Hashed.ALWAYS),
        PolicyKey(
            "delta",
            _DELTA,
            Required(
                OWNER_CHOOSES,
                "Add delta, for example delta = 1e-6; delta = 0 allows Laplace noise and declared keys only.",
            ),
            "The maximum delta of all answers together.",
            Hashed.ALWAYS,
        ),
        PolicyKey(
            "query_delta",
            ExactNumber("number from 0 to `budget.delta`", _PROBABILITY, _DELTA.accepts, _DELTA.why, _DELTA.remedy),
            Default(words="a thousandth of `budget.delta`"),
            "The delta of a query that names none.",
            Hashed.ALWAYS,
        ),
        PolicyKey(
            "truncation",
            ExactNumber("number above 0, at most `budget.epsilon`", {"exclusiveMinimum": 0}),
            Default(words="none: no interval covers truncation"),
            "Epsilon spent once per snapshot to measure how much contribution bounds and clipping remove.",
        ),
        PolicyKey(
            "charges",
            WholeNumber(10**9),
            Default(MAX_CHARGES_PER_ACCOUNT),
            "The maximum number of charges of each account.",
        ),
        PolicyKey(
            "every",
            _EVERY,
            Default(words="none: the budget holds for the lifetime of the ledger"),
            "The budget renews with each such window, and nothing bounds all windows together.",
        ),
        PolicyKey(
            "lifetime",
            OneOf((UNLIMITED,)),
            Default(words="none: the budget holds for the lifetime of the ledger"),
            "Confirms that a budget with `every` has no cap over all windows together.",
        ),
    )
)
ROLE = Section(
    (
        PolicyKey(
            "tables",
            NameList("list of tables", "table", MAX_TABLES),
            Default(words="all tables, or those that `columns` names"),
            "The tables that analysts with this role may use.",
            Hashed.APART,
        ),
        PolicyKey(
            "columns",
            Described(
                "list of columns, as `TABLE.COLUMN`, `TABLE.*` or `COLUMN`",
                {"type": "array", "items": {"type": "string", "maxLength": 200}},
            ),
            Default(words="all columns of these tables"),
            "The columns that analysts with this role may use.",
            Hashed.APART,
        ),
        PolicyKey(
            "epsilon",
            _EPSILON,
            Default(words="none: each analyst has an own one"),
            "The maximum epsilon of all answers to each analyst with this role who names none.",
            Hashed.APART,
        ),
        PolicyKey(
            "delta",
            _DELTA,
            Default(words="`budget.delta`"),
            "The maximum delta of all answers to each analyst with this role who names none.",
            Hashed.APART,
        ),
        PolicyKey(
            "price",
            DefaultPrice(),
            Default(words="none: each question names its price"),
            "The price of a question that names none, for analysts with this role.",
            Hashed.APART,
        ),
        PolicyKey(
            "every",
            _EVERY,
            Default(words="none: the cap does not renew"),
            "The window after which the cap of each analyst renews who takes epsilon from this role.",
            Hashed.APART,
        ),
    )
)
ANALYST = Section(
    (
        PolicyKey(
            "epsilon",
            _EPSILON,
            Default(words="required, unless a role has one"),
            "The maximum epsilon of all answers to this analyst.",
            Hashed.ALWAYS,
        ),
        PolicyKey(
            "delta",
            _DELTA,
            Default(words="`budget.delta`"),
            "The maximum delta of all answers to this analyst.",
            Hashed.ALWAYS,
        ),
        PolicyKey(
            "price",
            DefaultPrice(),
            Default(words="none: each question names its price"),
            "The price of a question that names none: a share of this analyst's budget, or an epsilon.",
            Hashed.APART,
        ),
        PolicyKey(
            "roles",
            NameList("list of roles", "role", MAX_ROLES),
            Default((), "none: the analyst may use all tables"),
            "The roles that say what this analyst may use; several add up.",
        ),
        PolicyKey(
            "every",
            _EVERY,
            Default(words="none: the cap does not renew, unless epsilon comes from a role that says so"),
            "The window after which this analyst's cap renews; the budget still limits all windows together.",
        ),
        PolicyKey(
            "cohorts",
            OneOf(tuple(CohortCap), {}, CohortCap),
            Default(CohortCap.EACH, '`"each"`'),
            "Whether each cohort of people has this analyst's cap for itself, or all cohorts share it.",
        ),
    ),
    any_of=("epsilon", "roles"),
)
