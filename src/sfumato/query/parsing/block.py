"""A SELECT that has been read, before it is known what becomes of it: rows, conditions that are left, and columns."""

from dataclasses import dataclass

from sfumato.query.expression import Column, Expression
from sfumato.query.filter_placement import filter_relation
from sfumato.query.parsing.reading import ParseContext
from sfumato.query.relation import Named, Project, Relation


@dataclass(frozen=True, slots=True)
class Block:
    """A SELECT that has been read: rows of `relation` that meet the `pending` conditions, and what each gives."""

    relation: Relation
    pending: tuple[Expression, ...]
    outputs: tuple[Named, ...]

    @property
    def rows(self) -> Relation:
        """The rows, with all conditions met."""
        return filter_relation(self.relation, self.pending)


def project_block(
    block: Block, values: tuple[Expression, ...], reading: ParseContext
) -> tuple[Project, tuple[Column, ...]]:
    """Return the rows of a block with nothing but these values, and the columns that they are."""
    items = tuple(Named(f"c{i}", value) for i, value in enumerate(values, 1))
    project = Project(block.rows, reading.label("select"), items)
    for item in items:
        reading.declare(project.label, item.name, reading.declared(item.expression))
    return project, project.columns
