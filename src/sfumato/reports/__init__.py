"""Documents for people who were not there: the report to sign, and the deployment record."""
