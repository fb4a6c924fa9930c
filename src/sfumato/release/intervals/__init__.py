"""Error bars: the law of every column's noise, carried through whatever is computed from it."""
