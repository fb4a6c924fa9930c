"""Desugaring: SQL forms that are rewritten into simpler ones before analysis."""
