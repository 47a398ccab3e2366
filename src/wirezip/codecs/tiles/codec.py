"""The host side that the tiled codecs share: buffers, sections, and the choice of implementation."""

import importlib
from abc import abstractmethod
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import torch

from wirezip import settings
from wirezip.codecs.base import Codec
from wirezip.codecs.tiles.layout import (
    ENTRY,
    HEADER_BYTES,
    MAX_LOG2_TILE,
    MIN_LOG2_TILE,
    PLACEMENTS,
    Sections,
    TileLayout,
    check_log2,
    open_body,
    read_header,
)
from wirezip.errors import CorruptFrameError, SettingsError
from wirezip.floats import FLOAT_FORMATS, FloatFormat

# Modules of a codec's folder by the name of the implementation they hold.
MODULES = {"reference": "reference", "cpu": "cpu", "triton": "gpu"}


def as_words(values: torch.Tensor) -> np.ndarray:
    """Return the bit patterns of a CPU float tensor as unsigned integers, without a copy."""
    layout = FLOAT_FORMATS[values.dtype]
    words: np.ndarray = values.view(layout.word_dtype).numpy()
    return words.view(f"u{layout.word_bytes}")


@dataclass(frozen=True)
class TiledCodec(Codec):
    """A codec whose body is made of tiles; subclasses say how a tile is coded.

    Attributes:
        tile_elems: Elements of a tile, a power of two.
        placement: `packed`, or `slotted`: each tile in a slot of worst-case size.
        implementation: `reference`, `cpu`, `triton`, or `auto`: by the tensor's device.
    """

    tile_elems: int
    placement: str = "packed"
    implementation: str = "auto"

    def __post_init__(self) -> None:
        check_log2("tile_elems", self.tile_elems, MIN_LOG2_TILE, MAX_LOG2_TILE)
        if self.placement not in PLACEMENTS:
            raise SettingsError(f"placement={self.placement!r}: expected one of {', '.join(PLACEMENTS)}")
        if self.implementation not in settings.IMPLEMENTATIONS:
            listed = ", ".join(settings.IMPLEMENTATIONS)
            raise SettingsError(f"implementation={self.implementation!r}: expected one of {listed}")

    @abstractmethod
    def remainder_bits(self, layout: FloatFormat) -> int:
        """Return the bits of the head that are not coded."""

    @property
    def log2_stream(self) -> int:
        """log2 of the elements in an entropy-coded stream; 0 where there are none."""
        return 0

    @abstractmethod
    def check(self, tiles: TileLayout, sections: Sections) -> None:
        """Check everything in the directory that does not take decoding.

        Raises:
            CorruptFrameError: An entry is not legal.
        """

    def geometry(self, numel: int, dtype: torch.dtype) -> TileLayout:
        """Return the geometry of the body this codec makes for a tensor."""
        layout = FLOAT_FORMATS[dtype]
        log2_tile = self.tile_elems.bit_length() - 1
        return TileLayout(layout, self.remainder_bits(layout), numel, log2_tile, self.log2_stream, self.placement)

    def supports(self, dtype: torch.dtype) -> bool:
        """Return whether `dtype` is one of the eight float types."""
        return dtype in FLOAT_FORMATS

    def max_encoded_bytes(self, numel: int, dtype: torch.dtype) -> int:
        """Return the bytes of a body with every tile stored; see `Codec.max_encoded_bytes`."""
        return self.geometry(numel, dtype).max_body_bytes

    def min_encoded_bytes(self, numel: int, dtype: torch.dtype) -> int:
        """Return the bytes of a directory with the largest tiles; see `Codec.min_encoded_bytes`."""
        return HEADER_BYTES + -(-numel // (1 << MAX_LOG2_TILE)) * ENTRY.itemsize

    def encode(self, values: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Encode a tensor; see `Codec.encode`.

        1. Code all tiles, the residue section at its place, the symbols after its largest extent.
        2. Where constant planes left the residue section shorter, move the symbols up to it.
        3. Write the header.
        """
        buffer = self.output_for(values, out)
        tiles = self.geometry(values.numel(), values.dtype)
        module = self.module_for(values)
        if module.__name__.endswith(f".{MODULES['triton']}"):
            return buffer[: module.encode_body(values, tiles, buffer)]
        body = buffer.numpy()
        directory_end = HEADER_BYTES + tiles.num_tiles * ENTRY.itemsize
        start = tiles.sections_offset
        symbols_start = start + tiles.max_residue_bytes
        sections = Sections(
            entries=body[HEADER_BYTES:directory_end].view(ENTRY),
            residue=body[start:symbols_start],
            symbols=body[symbols_start : symbols_start + tiles.max_symbol_bytes],
        )
        # Bytes between slots mean nothing, but a body must be the same bytes every time.
        body[directory_end : tiles.max_body_bytes if tiles.placement == "slotted" else start] = 0
        residue_bytes, symbol_bytes = module.encode_tiles(as_words(values), tiles, sections)
        end = start + residue_bytes + symbol_bytes
        if start + residue_bytes != symbols_start:
            body[start + residue_bytes : end] = sections.symbols[:symbol_bytes]
        body[:HEADER_BYTES] = np.frombuffer(tiles.pack_header(residue_bytes, symbol_bytes), np.uint8)
        return buffer[:end]

    def decode(self, body: torch.Tensor, out: torch.Tensor) -> None:
        """Decode a body; see `Codec.decode`. Geometry comes from the body, not from the options."""
        layout = FLOAT_FORMATS.get(out.dtype)
        if layout is None:
            raise CorruptFrameError(f"codec {self.name} does not make bodies of {out.dtype}")
        module = self.module_for(out)
        if module.__name__.endswith(f".{MODULES['triton']}"):
            header = body[:HEADER_BYTES].cpu().numpy()
            tiles, section_bytes = read_header(header, body.numel(), layout, self.remainder_bits(layout), out.numel())
            module.decode_body(tiles, section_bytes, body, out)
            return
        tiles, sections = open_body(body.numpy(), layout, self.remainder_bits(layout), out.numel())
        self.check(tiles, sections)
        module.decode_tiles(tiles, sections, as_words(out))

    def module_for(self, values: torch.Tensor) -> ModuleType:
        """Return the module that serves a tensor."""
        name = self.implementation
        if name == "auto":
            name = settings.read().implementation
        if name == "auto":
            name = "cpu" if values.device.type == "cpu" else "triton"
        package = type(self).__module__.rpartition(".")[0]
        return importlib.import_module(f"{package}.{MODULES[name]}")
