"""What a run says as a whole, in sentences."""

import math
from collections import Counter
from collections.abc import Sequence

from wirezip.bench.rows import Row
from wirezip.bench.tables import EVEN_WITHIN, UNCOMPRESSED, codec_label, describe_link, is_compressed, outcome

_COUNTED = ("pays", "costs", "even", "unclear", "too few rounds", "went raw")


def summary_lines(rows: Sequence[Row]) -> list[str]:
    """Return for each link which codec did best there, against the best uncompressed path, and how each fared.

    Args:
        rows: Rows of p2p and collectives.
    """
    lines = []
    for link in dict.fromkeys(row.link for row in rows):
        groups: dict[str, list[Row]] = {}
        for row in rows:
            if row.link == link and row.codec not in UNCOMPRESSED:
                groups.setdefault(codec_label(row), []).append(row)
        lines.append(f"On the {describe_link(link)} {_headline(groups)}")
        lines += [f"  {name}: {_tally(cases)}" for name, cases in groups.items()]
    return lines


def _headline(groups: dict[str, list[Row]]) -> str:
    gains = {name: _mean_gain(cases) for name, cases in groups.items() if any(map(is_compressed, cases))}
    if not gains:
        return "no codec made the data smaller."
    judged = {outcome(row) for cases in groups.values() for row in cases} - {"went raw"}
    if judged == {"too few rounds"}:
        return "there were too few rounds for a verdict."
    best = max(gains, key=lambda name: gains[name])
    gain, num_paid = gains[best], sum(outcome(row) == "pays" for row in groups[best])
    if abs(gain - 1) <= EVEN_WITHIN:
        return f"the best codec, {best}, is about even with sending raw: {gain:.2f}x the speed."
    if gain < 1:
        return f"no codec pays on the whole; send raw. The nearest is {best} at {gain:.2f}x the speed."
    if not num_paid:
        return f"no codec surely pays. The nearest is {best} at {gain:.2f}x the speed."
    return f"{best} does best: {gain:.2f}x the speed of sending raw."


def _tally(cases: Sequence[Row]) -> str:
    counts = Counter(map(outcome, cases))
    found = ", ".join(f"{word} in {counts[word]}" for word in _COUNTED if counts[word])
    mean = f"; {_mean_gain(cases):.2f}x on geometric mean" if any(map(is_compressed, cases)) else ""
    return f"{found} of {len(cases)} {'case' if len(cases) == 1 else 'cases'}{mean}"


def _mean_gain(cases: Sequence[Row]) -> float:
    """Return the geometric mean of the gains of those cases in which the codec served."""
    gains = [row.codec_gain for row in cases if is_compressed(row)]
    return math.exp(sum(map(math.log, gains)) / len(gains))
