"""What cannot be beaten: bounds, and the check of every claim."""
