"""What engines are asked, and what they share."""
