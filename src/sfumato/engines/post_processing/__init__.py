"""Post-processing: two evaluators of what a query computes from noisy results."""
