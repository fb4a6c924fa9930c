"""A relation and the policy become a PrivateQuery: who owns each row, how far values reach, which keys are public."""
