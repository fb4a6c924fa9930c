"""Every family of aggregates after the noise: its estimate, and what it is in terms of the noise."""
