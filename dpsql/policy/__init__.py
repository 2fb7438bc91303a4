"""What an owner declares: the model, its file, drafts, and checks against a database."""
