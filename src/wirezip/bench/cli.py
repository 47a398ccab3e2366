"""The commands of `wirezip bench`: parsing only."""

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="Measure what compression does to communication on this machine.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Codecs = Annotated[list[str] | None, typer.Option("--codec", help="Codecs, repeated or comma-separated.")]
_Data = Annotated[list[str] | None, typer.Option("--data", help="Datasets, repeated or comma-separated.")]
_Links = Annotated[list[str] | None, typer.Option("--link", help="loopback, or emulated:RATE such as emulated:1Gbit.")]
_Dtype = Annotated[
    str | None,
    typer.Option("-d", "--dtype", help="Dtype of generated data, such as --data normal; real data keep theirs."),
]
_Min = Annotated[
    str | None, typer.Option("-b", "--min-bytes", help="First size, such as 64K; without -e the only one.")
]
_Max = Annotated[str | None, typer.Option("-e", "--max-bytes", help="Last size; without -b, the first is at most 1M.")]
_Factor = Annotated[int | None, typer.Option("-f", "--factor", help="Each size is this many times the last (2).")]
_Step = Annotated[str | None, typer.Option("-i", "--step-bytes", help="Each size is this much larger than the last.")]
_Warmup = Annotated[int, typer.Option("-w", "--warmup", help="Untimed rounds per size.")]
_Json = Annotated[str | None, typer.Option("--json", help="Write the rows as JSON to this file, or - for stdout.")]
_Csv = Annotated[str | None, typer.Option("--csv", help="Write the rows as CSV to this file, or - for stdout.")]
_Seed = Annotated[int, typer.Option("--seed", help="Seed of generated and derived data.")]
_Device = Annotated[str, typer.Option("--device", help="cpu; cuda is still to come.")]


def _check_outputs(json: str | None, csv: str | None) -> None:
    if json is not None and json == csv:
        where = "standard output" if json == "-" else f"one file, {json}"
        raise typer.BadParameter(f"JSON and CSV cannot both go to {where}", param_hint="'--csv'")


@app.command()
def quick(
    *,
    codec: _Codecs = None,
    link: _Links = None,
    ranks: Annotated[int, typer.Option("--ranks", help="Local ranks of the collectives.")] = 2,
    num_bytes: Annotated[
        str | None,
        typer.Option("--bytes", help="Size of each case; else p2p sends the real tensors whole, and collectives 4M."),
    ] = None,
    iters: Annotated[int, typer.Option("-n", "--iters", help="Timed rounds per case, at most.")] = 50,
    warmup: _Warmup = 5,
    out: Annotated[Path, typer.Option("--out", help="Folder that the results folder is made in.")] = Path("results"),
    device: _Device = "cpu",
) -> None:
    """Compare codecs on real tensors over a fast and a slow link; write a results folder."""
    from wirezip.bench import commands

    commands.quick(codec, link, ranks=ranks, num_bytes=num_bytes, iters=iters, warmup=warmup, out=out, device=device)


@app.command()
def codec(
    *,
    codec: _Codecs = None,
    data: _Data = None,
    dtype: _Dtype = None,
    min_bytes: _Min = None,
    max_bytes: _Max = None,
    factor: _Factor = None,
    step_bytes: _Step = None,
    num_bytes: Annotated[str | None, typer.Option("--bytes", help="One size, such as 64M (the default).")] = None,
    iters: Annotated[int, typer.Option("-n", "--iters", help="Timed rounds.")] = 7,
    warmup: _Warmup = 1,
    peers: Annotated[bool, typer.Option("--peers/--no-peers", help="Also run other projects' codecs.")] = True,
    seed: _Seed = 0,
    json: _Json = None,
    csv: _Csv = None,
) -> None:
    """Time encode and decode of codecs on one core, beside each other."""
    from wirezip.bench import commands
    from wirezip.bench.options import Sizes

    _check_outputs(json, csv)
    sizes = commands.codec_sizes(num_bytes, Sizes(min_bytes, max_bytes, factor, step_bytes))
    request = commands.CodecRequest(
        codecs=codec,
        data=data,
        dtype=dtype,
        sizes=sizes,
        num_iters=iters,
        num_warmup=warmup,
        seed=seed,
        peers=commands.peer_names(peers),
    )
    commands.codec(request, commands.Output(json, csv))


def _for(ops: str, op: str, text: str, *flags: str) -> Any:
    """Return an option that the help of other operations than those that begin with `ops` does not show."""
    return typer.Option(*flags, help=text, hidden=not op.startswith(ops))


def _register(op: str, summary: str) -> None:
    # What does not fit an operation is not in its help; if given, it is refused with what fits.
    @app.command(op, help=summary)
    def command(
        *,
        min_bytes: _Min = None,
        max_bytes: _Max = None,
        factor: _Factor = None,
        step_bytes: _Step = None,
        iters: Annotated[int, typer.Option("-n", "--iters", help="Timed rounds per size.")] = 20,
        warmup: _Warmup = 5,
        check: Annotated[int, typer.Option("-c", "--check", help="Checked rounds before timing.")] = 1,
        dtype: _Dtype = None,
        reduction: Annotated[str, _for("all_reduce", op, "Reduction: sum.", "-o", "--op")] = "sum",
        backend: Annotated[str, typer.Option("--backend", help="gloo.")] = "gloo",
        codec: _Codecs = None,
        algorithm: Annotated[list[str] | None, _for("all", op, "Algorithms of the collective.", "--algorithm")] = None,
        strategy: Annotated[list[str] | None, _for("p2p", op, "Strategies of p2p.", "--strategy")] = None,
        data: _Data = None,
        ranks: Annotated[int, typer.Option("--ranks", help="Local ranks.", hidden=op == "p2p")] = 2,
        link: _Links = None,
        device: _Device = "cpu",
        seed: _Seed = 0,
        json: _Json = None,
        csv: _Csv = None,
    ) -> None:
        from wirezip.bench import commands
        from wirezip.bench.options import Request, Sizes, split_list

        _check_outputs(json, csv)
        commands.check_device(device)
        default = Request(op)
        request = Request(
            op,
            codecs=default.codecs if codec is None else split_list(codec),
            data=default.data if data is None else split_list(data),
            links=default.links if link is None else split_list(link),
            algorithms=split_list(algorithm or []),
            strategies=split_list(strategy or []),
            dtype=dtype,
            sizes=Sizes(min_bytes, max_bytes, factor, step_bytes),
            reduction=reduction,
            backend=backend,
            num_ranks=ranks,
            num_iters=iters,
            num_warmup=warmup,
            num_checks=check,
            seed=seed,
        )
        commands.operation(request, commands.Output(json, csv))


_register("p2p", "Send from rank 0 to rank 1 (nccl-tests' flags).")
_register("all_gather", "Gather all ranks' data on every rank (nccl-tests' flags).")
_register("all_reduce", "Sum over ranks (nccl-tests' flags).")
