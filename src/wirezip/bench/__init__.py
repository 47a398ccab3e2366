"""The benchmark suite: what compression does to communication on this machine, and whether it pays."""
