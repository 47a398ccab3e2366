"""`python -m wirezip.bench`, the same commands as `wirezip bench`."""

import sys

from wirezip.bench.cli import app
from wirezip.errors import WirezipError


def main() -> None:
    """Run the commands; an error of wirezip's is one line and exit code 1."""
    try:
        app()
    except WirezipError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
