"""One result row: what ran, on what, how long it took, whether it was right.

Rows are immutable and go to JSON as they are; a number that does not exist is null there, never NaN
or infinity.
"""

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class TimeSummary:
    """Times of one variant in microseconds.

    Attributes:
        min: Shortest.
        median: Median.
        p95: 95th percentile by nearest rank; None below 20 samples.
        max: Longest.
        ci95: Bounds of the 95 % confidence interval of the median; None below 6 samples.
    """

    min: float
    median: float
    p95: float | None
    max: float
    ci95: tuple[float, float] | None


@dataclass(frozen=True)
class ErrorSummary:
    """Deviation of a result; the formulas stand in `wirezip.bench.metrics`.

    Attributes:
        exact: Whether the bits equal those of the stated algorithm's result.
        max_abs: Largest absolute deviation from the fp64 reference.
        mae: Mean absolute deviation.
        mse: Mean squared deviation.
        psnr_db: Peak signal-to-noise ratio over the reference's value range; None when mse is 0.
        cosine: Cosine similarity; None when either side is all zeros.
        rel_l2: Norm of the deviation over norm of the reference; None when the latter is 0.
        bound_ok: Whether the codec's declared bound holds; for a lossless codec, whether exact.
    """

    exact: bool
    max_abs: float | None
    mae: float | None
    mse: float | None
    psnr_db: float | None
    cosine: float | None
    rel_l2: float | None
    bound_ok: bool | None


@dataclass(frozen=True)
class LinkInfo:
    """The link a row was measured over.

    Attributes:
        name: As given to `--link`.
        emulated: Whether the pace was imposed by wirezip and not by hardware.
        rate_gbit_s: Rate imposed, in Gbit/s each way; None when nothing is imposed.
    """

    name: str
    emulated: bool
    rate_gbit_s: float | None


@dataclass(frozen=True)
class Row:
    """One result.

    Attributes:
        op: `p2p`, `all_gather`, `all_reduce`, `encode` or `decode`.
        backend: What carried the bytes, such as `gloo`; `memory` for encode and decode.
        algorithm: Algorithm of the collective; None where there is no choice.
        strategy: Strategy of the transfer; `plain` for the backend's own call.
        codec: Codec name; `none` for the backend's own call.
        dtype: Dtype of the tensor.
        data: Dataset name.
        note: What a reader must know about this row, such as that data are derived.
        world_size: Number of ranks.
        logical_bytes: Bytes the user asked to move; for all_gather, those of the gathered output.
        raw_wire_bytes: Bytes of tensors that all ranks together send when nothing is compressed.
        wire_bytes: Bytes that moved, metadata included, over all ranks.
        ratio: wire_bytes / raw_wire_bytes; lower is better.
        bound: Order-0 exponent entropy bound of the ratio; None for dtypes that are not floats.
        time_us: Times in microseconds; each sample is the longest of all ranks.
        algbw_gbps: Effective bandwidth of the median, in GB/s of original bytes.
        busbw_gbps: The same times nccl-tests' bus factor; None for encode and decode.
        baseline: What `baseline_time_us` was measured with.
        baseline_time_us: Median time of the plain backend, or of the stand-in `baseline` names.
        speedup: baseline_time_us / median time.
        raw_path: Which uncompressed path over the same transport was fastest.
        raw_path_time_us: Its median time.
        codec_gain: raw_path_time_us / median time: what compression itself earned.
        codec_gain_ci95: Bootstrap confidence interval of `codec_gain`; None below 6 samples.
        error: Deviation of the result.
        served_by: What really did the work, as reported by the library.
        num_ranks_raw: Ranks that sent all they had uncompressed although the codec is another than raw.
        verified: Whether the result was checked before timing and on the last timed iteration: bit by
            bit, but within the rounding of each addition for a plain all_reduce.
        link: The link.
        device: Device of the tensors.
        samples_us: The raw times, in order.
        warmup_iters: Untimed iterations that ran before them, checks included.
        skew_us: Median difference between the first and the last rank to start, by one clock.
        unstable: Whether the times scatter too much to be trusted.
    """

    op: str
    backend: str
    algorithm: str | None
    strategy: str | None
    codec: str
    dtype: str
    data: str
    note: str
    world_size: int
    logical_bytes: int
    raw_wire_bytes: int
    wire_bytes: int
    ratio: float
    bound: float | None
    time_us: TimeSummary
    algbw_gbps: float
    busbw_gbps: float | None
    baseline: str
    baseline_time_us: float
    speedup: float
    raw_path: str
    raw_path_time_us: float
    codec_gain: float
    codec_gain_ci95: tuple[float, float] | None
    error: ErrorSummary
    served_by: str
    num_ranks_raw: int
    verified: bool
    link: LinkInfo
    device: str
    samples_us: tuple[float, ...]
    warmup_iters: int
    skew_us: float
    unstable: bool


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def to_record(row: Row) -> dict[str, Any]:
    """Return a row as plain JSON values, with null for every number that is not finite."""
    record: dict[str, Any] = _finite(asdict(row))
    return record


def to_json(rows: list[Row]) -> str:
    """Return rows as a JSON array, one row a line."""
    lines = ",\n".join(json.dumps(to_record(row), allow_nan=False) for row in rows)
    return f"[\n{lines}\n]\n"


def to_csv(rows: list[Row]) -> str:
    """Return rows as CSV: one column per field, those of nested records as `time_us.median`, no samples."""
    import csv
    import io

    header = [name for field in fields(Row) for name in _columns(field.name)]
    text = io.StringIO()
    writer = csv.DictWriter(text, header, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        record = to_record(row)
        flat: dict[str, Any] = {}
        for name in header:
            outer, _, inner = name.partition(".")
            value = record[outer][inner] if inner else record[outer]
            flat[name] = " ".join(map(str, value)) if isinstance(value, list) else value
        writer.writerow(flat)
    return text.getvalue()


_NESTED = {"time_us": TimeSummary, "error": ErrorSummary, "link": LinkInfo}


def _columns(name: str) -> list[str]:
    if name == "samples_us":
        return []
    if name in _NESTED:
        return [f"{name}.{field.name}" for field in fields(_NESTED[name])]
    return [name]
