"""Statements from our own algebra, for every engine that speaks SQL: what differs between them is a Dialect."""
