"""What an analyst gets: results and explanations."""
