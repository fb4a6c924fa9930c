"""Durable charges: the releases and their costs, in a chain that a second program can verify."""
