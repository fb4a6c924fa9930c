"""Notes on a plan: what contribution bounds, distinct counts and quantiles mean for its answer."""
