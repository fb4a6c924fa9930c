"""Names that statements use besides a policy's own; and names and texts as standard SQL spells them.

No name of a query or policy holds a quotation mark, so that a hidden column is one whose name does.
"""

from sfumato.language import rel_nodes

RANK = rel_nodes.RANK
"""The hidden column that numbers the rows of one person, and of kept public rows those that agree in their keys."""
PLACE = '"place"'
"""The hidden column that tells the order of rows."""
PATH_UNIT = '"unit"'
"""The hidden column of the opaque id where a path leads to the person."""
OWNERS = ('"first"', '"second"')
"""The hidden columns of both owners' numbers, where rows have two."""
NUMBER = '"number"'
"""The hidden column that numbers the rows of a table in which each of them is a person, where no engine does so."""
OWN = '"own"'
"""The hidden column that says how many rows of the same person the copy keeps."""
PERSON = '"person"'
"""The hidden column that numbers people: the same integer in all rows of a person, and another in those of others."""
LEVEL = '"level"'
"""The hidden column that says at which level a row begins to count, where a question chooses how many rows do."""
TOTALS = ".levels"
"""Suffix of the name of the table that says what all people of a table have up to each level."""
COHORTS = ".cohorts"
"""The table of the copy that says which cohort each person has. No table of a policy has a dot in its name."""
LONE = '"row"'
"""The only column of a table that declares none: its rows can still be counted."""


def duplicate_rank_column(column: str) -> str:
    """Return the hidden column that numbers the rows of one person in which a column holds the same value."""
    return f'"once" {column}'


def value_rank_column(column: str) -> str:
    """Return the hidden column that numbers the values of a column within one person, in the order they are kept."""
    return f'"cell" {column}'


def value_multiplicity_column(column: str) -> str:
    """Return the hidden column that says, in the first row of a person with a value, how many have it; 0 in others."""
    return f'"alike" {column}'


def value_count_column(column: str) -> str:
    """Return the hidden column that says in how many rows of the same person a column has a value."""
    return f'"rows" {column}'


def level_name(column: str) -> str:
    """Return the hidden column that says at which level a row begins to count, by the person's values of a column."""
    return f'"level" {column}'


def running_total_column(column: str) -> str:
    """Return the hidden column that says how much of a column the person has in the rows before."""
    return f'"before" {column}'


def first_bound_column(column: str) -> str:
    """Return the hidden column that says at which level of the person's sum a value begins to count."""
    return f'"first" {column}'


def last_bound_column(column: str) -> str:
    """Return the hidden column that says at which level of the person's sum all of a value counts."""
    return f'"last" {column}'


def together_name(what: str) -> str:
    """Return the hidden column that says, in the first row of a person, something about all kept ones: for a build."""
    return f'"together" {what}'


def quoted(name: str) -> str:
    """Return a name as an SQL identifier.

    >>> print(quoted('a"b'))
    "a""b"
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return text as an SQL string.

    >>> print(literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"
