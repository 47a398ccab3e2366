"""Data whose every tile is of another kind, and memory that tells when it is misused."""

import ctypes
import mmap

import torch

KINDS = ("normal", "bits", "zeros", "constant", "sparse", "half_zero", "ramp", "short_mantissa")


def tile_of(kind, numel, dtype, generator):
    """Return one tile of a kind."""
    normal = torch.randn(numel, generator=generator)
    if kind == "bits":
        octets = torch.randint(0, 256, (numel * dtype.itemsize,), generator=generator, dtype=torch.uint8)
        return octets.view(dtype)
    if kind == "normal":
        return normal.to(dtype)
    if kind == "zeros":
        return torch.zeros(numel).to(dtype)
    if kind == "constant":
        return torch.full((numel,), -1.7).to(dtype)
    if kind == "sparse":
        outliers = torch.arange(numel) % 97 == 5
        return torch.where(outliers, normal * 1e3, torch.full((numel,), 1.5)).to(dtype)
    if kind == "half_zero":
        return (normal * (torch.arange(numel) % 2)).to(dtype)
    if kind == "ramp":
        return torch.linspace(-3, 3, numel).to(dtype)
    return normal.to(torch.float8_e5m2).float().to(dtype)


def mixed(numel, tile_elems, dtype, kinds=KINDS):
    """Return a tensor whose tiles go through the kinds, one after another."""
    generator = torch.Generator().manual_seed(numel)
    num_tiles = -(-numel // tile_elems)
    tiles = [tile_of(kinds[i % len(kinds)], tile_elems, dtype, generator).view(torch.uint8) for i in range(num_tiles)]
    return torch.cat(tiles)[: numel * dtype.itemsize].clone().view(dtype)


def before_forbidden_page(octets):
    """Return a copy of a uint8 tensor that ends where memory may not be touched: a wild access ends the process."""
    room = -(-max(1, octets.numel()) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, room + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    assert protect(ctypes.c_void_p(start + room), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    copy = torch.frombuffer(memory, dtype=torch.uint8, count=room)[room - octets.numel() :]
    copy.copy_(octets)
    return copy


class Guarded:
    """A buffer between poisoned bytes."""

    MARGIN_BYTES = 4096

    def __init__(self, num_bytes, device="cpu"):
        self.whole = torch.full((num_bytes + 2 * self.MARGIN_BYTES,), 0xA5, dtype=torch.uint8, device=device)
        self.inner = self.whole[self.MARGIN_BYTES : self.MARGIN_BYTES + num_bytes]

    def intact(self):
        """Return whether nothing was written beside the buffer."""
        low, high = self.whole[: self.MARGIN_BYTES], self.whole[-self.MARGIN_BYTES :]
        return bool((low == 0xA5).all() and (high == 0xA5).all())
