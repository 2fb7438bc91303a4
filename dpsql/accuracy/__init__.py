"""The accuracy of answers: estimates, intervals, and sentences about them."""
