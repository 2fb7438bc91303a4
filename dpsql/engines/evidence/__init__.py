"""What engines were found to compute, and what was tried of it."""
