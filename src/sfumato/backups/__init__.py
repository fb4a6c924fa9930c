"""Backups of a dataset: one consistent cut while it runs, and its restore."""
