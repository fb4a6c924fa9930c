"""Contribution bounding, released: selected bounds, truncation losses, and the bias that they explain."""
