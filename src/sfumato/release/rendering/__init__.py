"""Answers, quotes, budgets and history for people and for other programs."""
