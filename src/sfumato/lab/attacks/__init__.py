"""Attacks on the statistical databases of the past, and the same attacks on ours."""
