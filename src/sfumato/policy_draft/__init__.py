"""A first policy for data that has none: names and types become a commented file that its owner completes."""
