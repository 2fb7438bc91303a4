"""What is charged: privacy loss in integer units, and how losses compose."""
