"""The host side that the tiled codecs share: buffers, sections, and the choice of implementation."""

import importlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch

from wirezip import settings
from wirezip.codecs.base import Codec
from wirezip.codecs.tiles.layout import (
    ALIGNMENT,
    ENTRY,
    HEADER_BYTES,
    MAX_LOG2_TILE,
    MIN_LOG2_TILE,
    PLACEMENTS,
    Sections,
    TileLayout,
    check_log2,
    open_body,
)
from wirezip.errors import CorruptFrameError, SettingsError
from wirezip.floats import FLOAT_FORMATS, FloatFormat

if TYPE_CHECKING:
    from wirezip.codecs.tiles.batch import BatchEncoding
    from wirezip.codecs.tiles.pending import Decoding, Encoding

# Modules of a codec's folder by the name of the implementation they hold.
MODULES = {"reference": "reference", "cpu": "cpu", "triton": "gpu"}


def as_words(values: torch.Tensor) -> np.ndarray:
    """Return the bit patterns of a CPU float tensor as unsigned integers, without a copy."""
    layout = FLOAT_FORMATS[values.dtype]
    words: np.ndarray = values.view(layout.word_dtype).numpy()
    return words.view(f"u{layout.word_bytes}")


def device() -> ModuleType:
    """Return the module of asynchronous launches; importing it imports Triton."""
    return importlib.import_module("wirezip.codecs.tiles.device")


def batch() -> ModuleType:
    """Return the module of batched launches; importing it imports Triton."""
    return importlib.import_module("wirezip.codecs.tiles.batch")


def is_triton(module: ModuleType) -> bool:
    """Return whether a module of a codec holds its Triton implementation."""
    return module.__name__.endswith(f".{MODULES['triton']}")


@dataclass(frozen=True)
class TiledCodec(Codec):
    """A codec whose body is made of tiles; subclasses say how a tile is coded.

    Attributes:
        tile_elems: Elements of a tile, a power of two; None takes the codec's default for the dtype.
        placement: `packed`, or `slotted`: each tile in a slot of worst-case size.
        implementation: `reference`, `cpu`, `triton`, or `auto`: by the tensor's device.
    """

    tile_elems: int | None = None
    placement: str = "packed"
    implementation: str = "auto"

    def __post_init__(self) -> None:
        if self.tile_elems is not None:
            check_log2("tile_elems", self.tile_elems, MIN_LOG2_TILE, MAX_LOG2_TILE)
        if self.placement not in PLACEMENTS:
            raise SettingsError(f"placement={self.placement!r}: expected one of {', '.join(PLACEMENTS)}")
        if self.implementation not in settings.IMPLEMENTATIONS:
            listed = ", ".join(settings.IMPLEMENTATIONS)
            raise SettingsError(f"implementation={self.implementation!r}: expected one of {listed}")

    @abstractmethod
    def remainder_bits(self, layout: FloatFormat) -> int:
        """Return the bits of the head that are not coded."""

    @abstractmethod
    def default_tile_elems(self, layout: FloatFormat) -> int:
        """Return the elements of a tile where the options name none."""

    def log2_stream(self, layout: FloatFormat, log2_tile: int) -> int:
        """Return log2 of the elements in an entropy-coded stream; 0 where there are none."""
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
        log2_tile = (self.tile_elems or self.default_tile_elems(layout)).bit_length() - 1
        log2_stream = self.log2_stream(layout, log2_tile)
        return TileLayout(layout, self.remainder_bits(layout), numel, log2_tile, log2_stream, self.placement)

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
        """Encode a tensor; see `Codec.encode`."""
        buffer = self.output_for(values, out)
        module = self.module_for(values)
        if is_triton(module):
            aligned = buffer if buffer.data_ptr() % ALIGNMENT == 0 else torch.empty_like(buffer)
            made = self.encode_async(values, aligned).wait()
            if aligned is not buffer:
                buffer[: made.numel()] = made
            return buffer[: made.numel()]
        tiles = self.geometry(values.numel(), values.dtype)
        body = buffer.numpy()
        start = tiles.section_offset
        sections = Sections(body[HEADER_BYTES:start].view(ENTRY), body[start : tiles.max_body_bytes])
        if tiles.placement == "slotted":
            # Bytes between slots mean nothing, but a body must be the same bytes every time.
            sections.records[:] = 0
        section_bytes = module.encode_tiles(as_words(values), tiles, sections)
        body[:HEADER_BYTES] = np.frombuffer(tiles.pack_header(section_bytes), np.uint8)
        return buffer[: start + section_bytes]

    def decode(self, body: torch.Tensor, out: torch.Tensor) -> None:
        """Decode a body; see `Codec.decode`. Geometry comes from the body, not from the options."""
        layout = FLOAT_FORMATS.get(out.dtype)
        if layout is None:
            raise CorruptFrameError(f"codec {self.name} does not make bodies of {out.dtype}")
        module = self.module_for(out)
        if is_triton(module):
            device().decode_any(self, body, out)
            return
        tiles, sections = open_body(body.numpy(), layout, self.remainder_bits(layout), out.numel())
        self.check(tiles, sections)
        module.decode_tiles(tiles, sections, as_words(out))

    def encode_async(
        self, values: torch.Tensor, out: torch.Tensor | None = None, workspace: torch.Tensor | None = None
    ) -> "Encoding":
        """Encode a tensor on the current stream of its GPU without waiting for it.

        Two launches at most, whatever the size. May be recorded into a CUDA graph.

        Args:
            values: Contiguous 1-D tensor of a supported dtype, with at least one element.
            out: Contiguous 1-D uint8 tensor on the same device, of at least `max_encoded_bytes` bytes,
                starting on a multiple of 16; allocated when None.
            workspace: uint8 tensor of `workspace_bytes`; when None, the one kept for the stream.

        Returns:
            The body that is being made, with its size on the device.

        Raises:
            UnsupportedDtypeError: The codec does not take this dtype.
            InputError: A tensor has the wrong layout, device, size or alignment.
            CodecUnavailableError: The kernels cannot run on this device in this process.
        """
        return device().encode_async(self, values, out, workspace)

    def decode_async(
        self, body: torch.Tensor, out: torch.Tensor, slack: bool = False, workspace: torch.Tensor | None = None
    ) -> "Decoding":
        """Decode a body on the current stream of its GPU without waiting for it, in one launch.

        Args:
            body: Contiguous 1-D uint8 tensor starting on a multiple of 16, of this codec's geometry.
            out: Contiguous 1-D tensor of the original dtype and element count; overwritten.
            slack: Whether other bytes may follow the body, as where its size is known to the device only.
            workspace: uint8 tensor of `workspace_bytes`; when None, the one kept for the stream.

        Returns:
            The decoding under way; its `wait` raises CorruptFrameError.

        Raises:
            InputError: A tensor has the wrong layout, device or alignment.
            CodecUnavailableError: The kernels cannot run on this device in this process.
        """
        return device().decode_async(self, body, out, slack, workspace)

    def decode_status(self, body: torch.Tensor, out: torch.Tensor, status: torch.Tensor) -> None:
        """Decode as `decode_async` does a body that other bytes may follow, but report to a tensor.

        Args:
            body: Contiguous 1-D uint8 tensor starting on a multiple of 16, of this codec's geometry.
            out: Contiguous 1-D tensor of the original dtype and element count; overwritten.
            status: One int64 on the same device, 2**63 - 1; gets the lowest number of a corrupt tile, or
                -1 for the header.

        Raises:
            InputError: A tensor has the wrong layout, device or alignment.
            CodecUnavailableError: The kernels cannot run on this device in this process.
        """
        device().decode_status(self, body, out, status)

    def encode_batch(self, values: "Sequence[torch.Tensor]") -> "BatchEncoding":
        """Encode many tensors of one dtype on the current stream, in two launches, without waiting.

        Args:
            values: Contiguous 1-D tensors of one dtype on one device, each of at least one element.

        Returns:
            The bodies that are being made.

        Raises:
            InputError: There is none, or they differ in dtype or device, or one has the wrong layout.
            UnsupportedDtypeError: The codec does not take this dtype.
            CodecUnavailableError: The kernels cannot run on this device in this process.
        """
        return batch().encode_batch(self, values)

    def decode_batch(self, bodies: "Sequence[torch.Tensor]", outs: "Sequence[torch.Tensor]") -> "Decoding":
        """Decode many bodies on the current stream, in one launch, without waiting.

        Args:
            bodies: Contiguous 1-D uint8 tensors of this codec's geometry, which other bytes may follow.
            outs: Contiguous 1-D tensors of one dtype, as many; overwritten.

        Returns:
            The decoding under way; its `wait` raises CorruptFrameError naming the first corrupt tensor.

        Raises:
            InputError: Their numbers, dtypes or devices differ, or one has the wrong layout.
            CodecUnavailableError: The kernels cannot run on this device in this process.
        """
        return batch().decode_batch(self, bodies, outs)

    def workspace_bytes(self, numel: int, dtype: torch.dtype) -> int:
        """Return the bytes of workspace that encoding and decoding need for `numel` elements of `dtype`."""
        return device().workspace_bytes(self, numel, dtype)

    def check_geometry(self, tiles: TileLayout) -> None:
        """Raise CorruptFrameError for a geometry that a header may name but this codec never makes."""

    def kernels_module(self) -> ModuleType:
        """Return the module that launches this codec's kernels."""
        package = type(self).__module__.rpartition(".")[0]
        return importlib.import_module(f"{package}.{MODULES['triton']}")

    def module_for(self, values: torch.Tensor) -> ModuleType:
        """Return the module that serves a tensor."""
        name = self.implementation
        if name == "auto":
            name = settings.read().implementation
        if name == "auto":
            name = "cpu" if values.device.type == "cpu" else "triton"
        package = type(self).__module__.rpartition(".")[0]
        return importlib.import_module(f"{package}.{MODULES[name]}")
