"""A dataset of synthetic rows in the shape of a policy: for writing questions before any budget is spent."""
