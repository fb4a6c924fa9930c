"""Every family of aggregates in one file: what it measures, how much depends on that, what a column is made of."""
