"""Audits of mechanisms, books and whole databases: evidence that the promises are kept."""
