"""The command line: it parses, calls the library, and prints."""

from wirezip.cli.entry import main

__all__ = ["main"]
