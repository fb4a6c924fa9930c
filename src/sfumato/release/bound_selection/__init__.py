"""Bound selection: a candidate bound is selected by a noisy contribution histogram, and the tail is corrected."""
