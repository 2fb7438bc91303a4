"""Tools of the owner: draft a policy, check it against the data, and profile the data."""
