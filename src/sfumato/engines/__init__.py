"""Plans become exact, secret aggregates here, over a copy of the source in which every person is already bounded."""
