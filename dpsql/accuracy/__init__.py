"""How close answers are: estimates, intervals, and what to say of them."""
