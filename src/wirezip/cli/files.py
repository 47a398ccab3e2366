"""`wirezip compress`, `decompress` and `inspect`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wirezip.cli.compilation import announced_compilation
from wirezip.cli.signals import unwinding_on_signals
from wirezip.cli.table import bytes_text, printable, ratio_text, table
from wirezip.errors import FileError

if TYPE_CHECKING:
    from wirezip.files import FileInfo

Force = Annotated[bool, typer.Option("--force", "-f", help="Replace OUT if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[Path, typer.Argument(metavar="OUT", help="File to write.")]


def compress(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A .safetensors or .npy file, or raw binary.")],
    target: Output,
    *,
    codec: Annotated[str, typer.Option(help="auto, or a name from `wirezip codecs`.")] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Dtype of a raw binary file, such as bf16.")] = None,
    checksum: Annotated[bool, typer.Option(help="Store a checksum of the original data.")] = True,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compress a file without loss; `decompress` gives it back bit for bit."""
    from wirezip.files import compress_file
    from wirezip.floats import parse_dtype

    _check_target(target, force=force)
    parsed = None if dtype is None else parse_dtype(dtype)
    with announced_compilation(), unwinding_on_signals():
        info = compress_file(source, target, codec=codec, dtype=parsed, checksum=checksum, force=force)
    _print_done(source, target, info, as_json=as_json)


def decompress(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A file that `compress` wrote.")],
    target: Output,
    *,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Restore a compressed file."""
    from wirezip.files import decompress_file

    _check_target(target, force=force)
    with announced_compilation(), unwinding_on_signals():
        info = decompress_file(source, target, force=force)
    _print_done(source, target, info, as_json=as_json)


def inspect(
    frame: Annotated[Path, typer.Argument(metavar="FRAME", help="A compressed file, or a single frame.")],
    *,
    as_json: Json = False,
) -> None:
    """Show what a compressed file holds, without decoding it."""
    from wirezip.files import inspect_file

    info = inspect_file(frame)
    if as_json:
        typer.echo(json.dumps(_as_dict(info), indent=2))
        return
    typer.echo(
        f"{printable(str(frame))}: {info.kind}, container version {info.version}, {_sizes(info)}; "
        f"{info.header_bytes} header and {info.trailer_bytes} trailer bytes kept"
    )
    columns = ("tensor", "dtype", "shape", "codec", "frames", "original", "encoded", "ratio", "checksum")
    rows = [
        (
            tensor.name or "-",
            tensor.dtype,
            "x".join(map(str, tensor.shape)) or "scalar",
            "+".join(tensor.codecs) or "-",
            tensor.num_frames,
            tensor.original_bytes,
            tensor.encoded_bytes,
            ratio_text(tensor.ratio),
            "yes" if tensor.checksum else "no",
        )
        for tensor in info.tensors
    ]
    typer.echo(table(columns, rows, right=("frames", "original", "encoded", "ratio")))


def _check_target(target: Path, *, force: bool) -> None:
    """Refuse what the library would write or refuse as well, in the words of the command line."""
    if str(target) == "-":
        raise typer.BadParameter("the output must be a file, not standard output", param_hint="OUT")
    if target.is_file() and not force:
        raise FileError(f"cannot write {target}: it exists; --force replaces it")


def _print_done(source: Path, target: Path, info: FileInfo, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"input": str(source), "output": str(target), **_as_dict(info)}, indent=2))
        return
    noun = "tensor" if len(info.tensors) == 1 else "tensors"
    names = f"{printable(str(source))} -> {printable(str(target))}"
    typer.echo(f"{names}: {len(info.tensors)} {noun}, {_sizes(info)}")


def _sizes(info: FileInfo) -> str:
    original, encoded = bytes_text(info.original_bytes), bytes_text(info.encoded_bytes)
    return f"{original} original, {encoded} compressed, ratio {ratio_text(info.ratio)}"


def _as_dict(info: FileInfo) -> dict[str, object]:
    fields = dataclasses.asdict(info)
    tensors = [{**dataclasses.asdict(tensor), "ratio": tensor.ratio} for tensor in info.tensors]
    return {**fields, "ratio": info.ratio, "tensors": tensors}
