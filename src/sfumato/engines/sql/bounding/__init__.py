"""Contribution bounding in SQL: of the copy when it is built, and of each measurement."""
