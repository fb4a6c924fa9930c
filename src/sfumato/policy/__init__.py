"""What the data owner promises about whom, within which bounds and for how much, read from TOML and frozen."""
