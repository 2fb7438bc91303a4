"""What owners run: drafts a policy, checks it against the data, looks at both."""
