"""Fixed-width exponent codes against a window of exponents, with escapes."""
