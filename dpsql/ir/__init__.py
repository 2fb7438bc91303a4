"""What is asked and how it will be answered: queries, measures, plans."""
