"""What Python's operations do to interpreted values."""
