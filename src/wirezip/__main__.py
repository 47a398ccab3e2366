"""`python -m wirezip`: the command line."""

import sys

from wirezip.cli import main

sys.exit(main())
