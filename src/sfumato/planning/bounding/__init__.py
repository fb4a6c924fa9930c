"""Contribution bounding, planned: candidate bounds, totals, and what bounding removes."""
