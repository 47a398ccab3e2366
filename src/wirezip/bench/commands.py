"""What the commands of `wirezip bench` do once their words are parsed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wirezip import codecs
from wirezip.bench import codec_bench, console, datasets, runner, tables
from wirezip.bench import quick as quick_bench
from wirezip.bench.contenders import PEERS, Skip
from wirezip.bench.options import Request, Sizes, check_memory, split_list
from wirezip.bench.outputs import check_target, write_text
from wirezip.bench.rows import Row, to_csv, to_json
from wirezip.errors import InputError
from wirezip.floats import parse_dtype

CODEC_BENCH_BYTES = "64M"
DEVICES = ("cpu",)


@dataclass(frozen=True)
class Output:
    """Where rows go besides the table.

    Attributes:
        json: File for JSON, `-` for standard output, or None.
        csv: File for CSV, `-` for standard output, or None.
    """

    json: str | None = None
    csv: str | None = None

    @property
    def is_table_shown(self) -> bool:
        """Whether standard output is free for the table."""
        return "-" not in (self.json, self.csv)

    def check(self) -> None:
        """Refuse targets that cannot be written, before anything is measured.

        Raises:
            FileError: A file cannot be written.
        """
        for target in (self.json, self.csv):
            if target is not None:
                check_target(target)

    def write(self, rows: Sequence[Row]) -> None:
        """Write the rows.

        Args:
            rows: The rows.

        Raises:
            FileError: A file cannot be written.
        """
        if self.json is not None:
            write_text(self.json, to_json(list(rows)))
        if self.csv is not None:
            write_text(self.csv, to_csv(list(rows)))


@dataclass(frozen=True)
class CodecRequest:
    """`bench codec` as asked for.

    Attributes:
        codecs: Codec names; None for all.
        data: Dataset names; None for bfloat16 weights, or normal values of `dtype`.
        dtype: Name of the dtype of generated data.
        sizes: Sizes.
        num_iters: Timed rounds.
        num_warmup: Untimed rounds.
        seed: Seed of generated and derived data.
        peers: Peers to run beside the codecs, when `codecs` is None.
    """

    codecs: Sequence[str] | None = None
    data: Sequence[str] | None = None
    dtype: str | None = None
    sizes: Sizes = field(default_factory=lambda: Sizes(CODEC_BENCH_BYTES))
    num_iters: int = 7
    num_warmup: int = 1
    seed: int = 0
    peers: Sequence[str] = PEERS


def check_device(device: str) -> None:
    """Refuse a device that is not served yet.

    Args:
        device: Name of the device.

    Raises:
        InputError: It is not served.
    """
    if device not in DEVICES:
        raise InputError(f"unknown device {device!r}; known: {', '.join(DEVICES)} (cuda is still to come)")


def peer_names(is_wanted: bool) -> Sequence[str]:
    """Return the peers to run.

    Args:
        is_wanted: Whether any are wanted.
    """
    return PEERS if is_wanted else ()


def codec_sizes(num_bytes: str | None, sizes: Sizes) -> Sizes:
    """Return the sizes of `bench codec`.

    Args:
        num_bytes: One size, or None.
        sizes: Sweep; 64 MiB when it is empty too.

    Raises:
        InputError: Both are given.
    """
    if num_bytes is None:
        return Sizes(CODEC_BENCH_BYTES) if sizes == Sizes() else sizes
    if sizes != Sizes():
        raise InputError("give one size (--bytes) or a sweep (-b, -e, -f, -i), not both")
    return Sizes(num_bytes)


def quick(
    codec: Sequence[str] | None,
    link: Sequence[str] | None,
    *,
    ranks: int,
    num_bytes: str | None,
    iters: int,
    warmup: int,
    out: Path,
    device: str,
) -> None:
    """Run `bench quick`.

    Args:
        codec: Codec names; None for the default.
        link: Link names; None for the default.
        ranks: Ranks of the collectives.
        num_bytes: Size of each message; None for the natural sizes.
        iters: Timed rounds at most.
        warmup: Untimed rounds.
        out: Folder that the results folder is made in.
        device: Device of the tensors.

    Raises:
        WirezipError: As in `wirezip.bench.quick.run`.
    """
    check_device(device)
    default = quick_bench.Plan()
    plan = quick_bench.Plan(
        codecs=default.codecs if codec is None else split_list(codec),
        links=default.links if link is None else split_list(link),
        num_ranks=ranks,
        num_bytes=num_bytes,
        num_iters=iters,
        num_warmup=warmup,
        parent=out,
    )
    quick_bench.run(plan)


def codec(request: CodecRequest, output: Output) -> None:
    """Run `bench codec`.

    Args:
        request: What was asked for.
        output: Where rows go.

    Raises:
        WirezipError: A word of the request is unknown, or a codec returned wrong data.
    """
    output.check()
    for name, value, least in (("-n", request.num_iters, 1), ("-w", request.num_warmup, 0)):
        if value < least:
            raise InputError(f"expected {name} of {least} or more, got {value}")
    names = [*codecs.names(), *request.peers] if request.codecs is None else split_list(request.codecs)
    dtype = None if request.dtype is None else parse_dtype(request.dtype)
    usual = ["weights-bf16"] if dtype is None else ["normal"]
    rows: list[Row] = []
    out = console.console()
    for data in usual if request.data is None else split_list(request.data):
        for num_bytes in request.sizes.list():
            check_memory(num_bytes, 1)
            sample = datasets.load(data, num_bytes=num_bytes, dtype=dtype, seed=request.seed)
            with console.progress(0) as on_step:
                run = codec_bench.run(
                    sample,
                    names,
                    num_iters=request.num_iters,
                    num_warmup=request.num_warmup,
                    on_step=lambda what: on_step(what, 0),
                )
            rows += run.rows
            if output.is_table_shown:
                title = f"{data}, {sample.values.nbytes} bytes, one core, {request.num_iters} rounds"
                out.print(tables.codec_table(run.rows, title))
                _print_codec_notes(run)
    output.write(rows)


def _print_codec_notes(run: codec_bench.CodecRun) -> None:
    console.print_text(
        "GB/s of original bytes, GB = 1e9. ratio: with metadata. bound: the exponents' order-0 entropy, the rest raw.",
        "dim",
    )
    served: dict[str, list[str]] = {}
    for row in run.rows[::2]:
        for part in row.note.split("; "):
            served.setdefault(part, []).append(row.codec)
    for part, names in served.items():
        subject = ", ".join(names) if part.startswith("timed: ") else run.rows[0].data
        console.print_text(f"{subject}: {part.removeprefix('timed: ')}", "dim")
    for skip in run.skips:
        console.print_text(f"skipped codec {skip.name}: {skip.reason}", "yellow")
    if any(row.unstable for row in run.rows):
        console.print_text("~ the median is known to no better than 10 %.", "dim")
    if run.cores_used > codec_bench.MAX_CORES_USED:
        console.print_text(f"{run.cores_used:.2f} cores were busy: a library used further threads.", "yellow")
    if run.cores_used < codec_bench.MIN_CORES_USED:
        share = f"{run.cores_used:.2f} of a core"
        console.print_text(
            f"Only {share} was left by other work on this machine: on an idle one all are faster.", "yellow"
        )


def operation(request: Request, output: Output) -> None:
    """Run `bench p2p`, `all_gather` or `all_reduce`.

    Args:
        request: What was asked for.
        output: Where rows go.

    Raises:
        WirezipError: A word of the request is unknown, a rank failed, or a result was wrong.
    """
    output.check()
    cells, skips = request.cells()
    with console.progress(len(cells)) as on_step:
        rows = runner.run(cells, request.num_ranks, on_step)
    if output.is_table_shown:
        _print_operation(rows, skips)
    output.write(rows)


def _print_operation(rows: Sequence[Row], skips: Sequence[Skip]) -> None:
    out = console.console()
    for link in dict.fromkeys(row.link for row in rows):
        shown = [row for row in rows if row.link == link]
        title = f"{shown[0].op} over the {tables.describe_link(link)}, {shown[0].world_size} ranks"
        out.print(tables.comm_table(shown, title))
    quick_bench.print_notes(rows, skips)
