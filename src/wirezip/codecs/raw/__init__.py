"""The identity codec."""
