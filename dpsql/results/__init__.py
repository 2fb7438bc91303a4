"""Results and explanations for analysts."""
