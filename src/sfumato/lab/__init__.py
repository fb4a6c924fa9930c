"""Attacks on systems that deserve them, and the same attacks on ours."""
