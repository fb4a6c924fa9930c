"""The data owner's policy: privacy units, bounds, public keys and budgets, read from TOML and frozen."""
