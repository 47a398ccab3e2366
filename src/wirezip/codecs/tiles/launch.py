"""Launches of the Triton kernels of the tiled codecs, on GPU tensors or, interpreted, on CPU tensors."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton

from wirezip.codecs.tiles import kernels_place
from wirezip.codecs.tiles.layout import ALIGNMENT, ROWS, TileLayout
from wirezip.errors import CodecUnavailableError

WORD_DTYPES = {8: torch.uint8, 16: torch.uint16, 32: torch.uint32, 64: torch.uint64}
# Bytes of a unit; see `wirezip.codecs.tiles.kernels`.
UNIT_BYTES = 4
# Tiles that share a choice; see `wirezip.codecs.window.reference`.
SEGMENT_TILES = 8
# Columns whose escapes fit a mask of 64 bits.
MAX_GROUP_COLUMNS = 8


class Geometry(NamedTuple):
    """What a kernel is compiled for; see `TileLayout` and `FloatFormat` for the names.

    `columns` are those of a full tile, `value_bins` the least power of two of bins for a histogram of
    values that a GPU block can fill, `head_shift` the bits of sign and mantissa in the head,
    `header_word` the first eight bytes of the header. `lanes` are the words of a unit and `ones` a unit
    with a 1 in each; `units` of a row are worked on at once, `groups` are the parts of them that a
    thread has; `lookback` are the tiles looked back at once. `words_aligned` says that the words start
    on a multiple of 16 bytes, `batch` that there are several tensors, `slack` that a body may be
    followed by other bytes. For the others see `Coding`.
    """

    word_bits: int
    exponent_bits: int
    mantissa_bits: int
    residue_planes: int
    head_bytes: int
    remainder_bits: int
    head_shift: int
    value_bits: int
    value_bytes: int
    value_count: int
    value_bins: int
    value_shift: int
    tile_elems: int
    columns: int
    log2_stream: int
    prob_bits: int
    scratch_bytes: int
    sample_step: int
    spill_words: int
    slotted: int
    slot_bytes: int
    header_word: int
    lanes: int
    ones: int
    units: int
    groups: int
    lookback: int
    words_aligned: int
    batch: int
    slack: int


class Variant(NamedTuple):
    """What a launch adds to the geometry of a body; see `Geometry`."""

    words_aligned: bool = True
    batch: bool = False
    slack: bool = False


class Coding(NamedTuple):
    """What an entropy coder's kernels must know.

    Resolution of the probabilities in bits, scratch bytes of a program, of how many groups one is
    sampled, room for the words of a stream, and units of a row that are worked on at once.
    """

    prob_bits: int = 0
    scratch_bytes: int = 0
    sample_step: int = 0
    spill_words: int = 0
    units: int = 0


NO_CODING = Coding()


@dataclass(frozen=True)
class Job:
    """One tensor, or a batch of tensors of one dtype and geometry, as the kernels take it.

    Attributes:
        tiles: Geometry of the body, or of any body of the batch.
        variant: What is particular to the launch.
        words: Words of the tensor; in a batch, any tensor that offsets are relative to.
        bodies: The body; in a batch, any tensor that offsets are relative to.
        table: The batch's facts, see `kernels_place`; None for one tensor.
        numel: Elements of the tensor, or tensors of the batch.
        body_bytes: Bytes of the body that may be read.
        num_tiles: Tiles of all tensors.
        num_segments: Segments of all tensors.
    """

    tiles: TileLayout
    variant: Variant
    words: torch.Tensor
    bodies: torch.Tensor
    table: torch.Tensor | None
    numel: int
    body_bytes: int
    num_tiles: int
    num_segments: int


def num_segments(num_tiles: int) -> int:
    """Return the segments of a tensor of so many tiles."""
    return -(-num_tiles // SEGMENT_TILES)


def lanes_of(tiles: TileLayout) -> int:
    """Return the words of a unit."""
    return max(1, UNIT_BYTES // tiles.layout.word_bytes)


def geometry_of(tiles: TileLayout, threads: int, variant: Variant, coding: Coding = NO_CODING) -> Geometry:
    """Return what the kernels must know of a body.

    Args:
        tiles: Geometry of the body.
        threads: Threads of a program.
        variant: What is particular to the launch.
        coding: What an entropy coder adds.
    """
    layout = tiles.layout
    lanes = lanes_of(tiles)
    columns = tiles.tile_elems // ROWS
    return Geometry(
        word_bits=layout.word_bits,
        exponent_bits=layout.exponent_bits,
        mantissa_bits=layout.mantissa_bits,
        residue_planes=layout.residue_planes,
        head_bytes=layout.head_bytes,
        remainder_bits=tiles.remainder_bits,
        head_shift=layout.remainder_bits,
        value_bits=tiles.value_bits,
        value_bytes=tiles.value_bytes,
        value_count=1 << tiles.value_bits,
        value_bins=max(256, 1 << tiles.value_bits),
        value_shift=8 * layout.residue_planes + tiles.remainder_bits,
        tile_elems=tiles.tile_elems,
        columns=columns,
        log2_stream=tiles.log2_stream,
        prob_bits=coding.prob_bits,
        scratch_bytes=coding.scratch_bytes,
        sample_step=coding.sample_step,
        spill_words=coding.spill_words,
        slotted=int(tiles.placement == "slotted"),
        slot_bytes=tiles.slot_bytes,
        header_word=int.from_bytes(tiles.pack_header(0)[:8], "little"),
        lanes=lanes,
        ones=sum(1 << (lane * layout.word_bits) for lane in range(lanes)),
        units=min(columns // lanes, coding.units or columns // lanes),
        groups=max(min(threads, columns // lanes), columns // MAX_GROUP_COLUMNS),
        lookback=max(32, threads),
        words_aligned=int(variant.words_aligned),
        batch=int(variant.batch),
        slack=int(variant.slack),
    )


def as_unsigned(values: torch.Tensor) -> torch.Tensor:
    """Return the bit patterns of a float tensor, as a view."""
    return values.view(WORD_DTYPES[8 * values.itemsize])


def is_aligned(tensor: torch.Tensor) -> bool:
    """Return whether a tensor starts on a multiple of 16 bytes."""
    return tensor.data_ptr() % ALIGNMENT == 0


def is_interpreted() -> bool:
    """Return whether the kernels are interpreted in this process."""
    return not isinstance(kernels_place.place_tile, triton.JITFunction)


def num_processors() -> int:
    """Return the multiprocessors of the current device; 0 where the kernels are interpreted."""
    if is_interpreted():
        return 0
    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count)


def takes_register_limit() -> bool:
    """Return whether kernels are compiled by a backend that takes a limit of registers."""
    return not is_interpreted() and torch.version.hip is None


def check_device(values: torch.Tensor) -> None:
    """Raise CodecUnavailableError unless the kernels can run on the tensor's device."""
    if is_interpreted() != (values.device.type == "cpu"):
        how = "interpreted" if is_interpreted() else "compiled"
        raise CodecUnavailableError(
            f"the Triton kernels are {how} in this process and cannot take a tensor on {values.device}: "
            "they are interpreted, for CPU tensors, where TRITON_INTERPRET=1 was set before they were imported"
        )
