"""Interleaved rANS over exponents with localized frequency tables."""
