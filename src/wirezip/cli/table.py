"""Plain text tables: the same on a terminal, in a pipe and in a log."""

from collections.abc import Sequence


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] = ()) -> str:
    """Return rows as aligned text.

    Args:
        columns: Headings.
        rows: One cell per heading in each row.
        right: Headings of the columns that are aligned to the right.
    """
    cells = [list(columns), *([printable(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = []
    for line in cells:
        padded = [
            cell.rjust(width) if heading in right else cell.ljust(width)
            for cell, width, heading in zip(line, widths, columns, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def printable(text: str) -> str:
    """Return text with everything that could move the cursor or colour the terminal written as an escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def bytes_text(num_bytes: int) -> str:
    """Return a number of bytes for people, such as `12.3 MB`; units are powers of 1000."""
    size = float(num_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}" if unit != "bytes" else f"{num_bytes} bytes"
        size /= 1000
    return f"{size:.4g} TB"


def ratio_text(ratio: float | None) -> str:
    """Return a ratio with four places, or `-` where there is none."""
    return "-" if ratio is None else f"{ratio:.4f}"
