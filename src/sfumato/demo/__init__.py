"""A clinic of made-up patients, and the tour that `sfumato demo` gives through it."""
