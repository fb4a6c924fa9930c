"""Translate sqlglot trees into our own algebra, one file for each part of a query."""
