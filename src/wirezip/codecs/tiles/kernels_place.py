"""Where tiles go: directory entries, look-back, and the kernel that closes a body.

Arguments are named in `wirezip.codecs.tiles.kernels`. A further one:

- `state_ptr`: int64: a ticket counter, the counter of `close_kernel`, then two words a tile:
  residue and symbol bytes, shifted left by 2, with one of the levels below.
"""

import triton
import triton.language as tl

from wirezip.codecs.tiles.kernels import (
    ALIGNMENT,
    aligned,
    known_aligned,
)

HEADER_BYTES = tl.constexpr(32)
ENTRY_BYTES = tl.constexpr(24)
# What is known of a tile's place: its own sizes, or the sizes of all tiles up to it.
OWN = tl.constexpr(1)
PREFIX = tl.constexpr(2)
# Tiles looked back at once.
LOOKBACK = tl.constexpr(32)
# Words of the state before those of the tiles.
STATE_HEAD = tl.constexpr(2)
# Bytes of a chunk that `close_kernel` moves.
CHUNK_BYTES = tl.constexpr(1 << 14)


@triton.jit
def publish(state_ptr, tile, residue_bytes, symbol_bytes, LEVEL: tl.constexpr):
    """Let the tiles after this one know its sizes, or where it ends."""
    place_ptr = state_ptr + STATE_HEAD + 2 * tile
    tl.atomic_xchg(place_ptr, (residue_bytes << 2) | LEVEL, sem="relaxed")
    tl.atomic_xchg(place_ptr + 1, (symbol_bytes << 2) | LEVEL, sem="relaxed")


@triton.jit
def place_tile(state_ptr, tile, residue_bytes, symbol_bytes, G: tl.constexpr):
    """Return the offsets of a tile in its sections, from the sizes of all tiles before it.

    Decoupled look-back (Merrill and Garland, 2016): each tile publishes its sizes, adds up those
    before it back to the nearest tile that knows its own place, then publishes its place. Every size
    travels in one word with its level, so no ordering between words is needed. Tiles are taken
    in the order of a ticket, so those waited for are running already.
    """
    residue_before = tile * G.residue_slot_bytes
    symbols_before = tile * G.symbol_slot_bytes
    if not G.slotted:
        residue_bytes = residue_bytes.to(tl.int64)
        symbol_bytes = symbol_bytes.to(tl.int64)
        publish(state_ptr, tile, residue_bytes, symbol_bytes, OWN)
        residue_before = tile * 0
        symbols_before = tile * 0
        lane = tl.arange(0, LOOKBACK)
        end = tile
        while end > 0:
            index = end - 1 - lane
            place_ptr = state_ptr + STATE_HEAD + 2 * index
            residue = tl.load(place_ptr, mask=index >= 0, other=PREFIX, volatile=True)
            symbols = tl.load(place_ptr + 1, mask=index >= 0, other=PREFIX, volatile=True)
            level = tl.where((residue & 3) == (symbols & 3), residue & 3, 0).to(tl.int32)
            stop = tl.min(tl.where(level == PREFIX, lane, LOOKBACK), 0)
            needed = lane <= stop
            if tl.min(tl.where(needed, level, PREFIX), 0) > 0:
                residue_before += tl.sum(tl.where(needed, residue >> 2, 0), 0)
                symbols_before += tl.sum(tl.where(needed, symbols >> 2, 0), 0)
                end = tl.where(stop < LOOKBACK, 0, end - LOOKBACK)
        publish(state_ptr, tile, residue_before + residue_bytes, symbols_before + symbol_bytes, PREFIX)
    return known_aligned(residue_before), known_aligned(symbols_before)


@triton.jit
def store_entry(body_ptr, tile, offsets, fields):
    """Store a directory entry; `fields` are num_escapes, base, width and constant_planes."""
    entry_ptr = body_ptr + HEADER_BYTES + tile * ENTRY_BYTES
    offset_ptr = entry_ptr.to(tl.pointer_type(tl.uint64))
    tl.store(offset_ptr, offsets[0].to(tl.uint64))
    tl.store(offset_ptr + 1, offsets[1].to(tl.uint64))
    low = fields[0].to(tl.uint64) | (fields[1].to(tl.uint64) << 32)
    tl.store(offset_ptr + 2, low | (fields[2].to(tl.uint64) << 48) | (fields[3].to(tl.uint64) << 56))


@triton.jit
def load_entry(body_ptr, tile):
    """Return residue_offset, symbol_offset as uint64, and num_escapes, base, width, constant_planes."""
    entry_ptr = (body_ptr + HEADER_BYTES + tile * ENTRY_BYTES).to(tl.pointer_type(tl.uint64))
    fields = tl.load(entry_ptr + 2)
    escapes = (fields & 0xFFFFFFFF).to(tl.int64)
    base = ((fields >> 32) & 0xFFFF).to(tl.int32)
    width = ((fields >> 48) & 0xFF).to(tl.int32)
    return tl.load(entry_ptr), tl.load(entry_ptr + 1), escapes, base, width, (fields >> 56).to(tl.int32)


@triton.jit
def outside(offset, num_bytes, section_bytes):
    """Return whether bytes at an offset, which may be any 64-bit number, leave their section."""
    room = section_bytes.to(tl.uint64)
    size = num_bytes.to(tl.uint64)
    # Compared by subtraction, because an offset near 2**64 would wrap in a sum.
    return (size > room) | (offset > room - tl.minimum(size, room)) | ((offset & (ALIGNMENT - 1)) != 0)


@triton.jit
def store_header(body_ptr, num_tiles, section_bytes, G: tl.constexpr):
    """Store the header of a body and the padding after its directory."""
    header_ptr = body_ptr.to(tl.pointer_type(tl.uint64))
    tl.store(header_ptr, G.header_word)
    tl.store(header_ptr + 1, num_tiles.to(tl.uint64))
    tl.store(header_ptr + 2, section_bytes[0].to(tl.uint64))
    tl.store(header_ptr + 3, section_bytes[1].to(tl.uint64))
    end_ptr = (body_ptr + HEADER_BYTES + num_tiles * ENTRY_BYTES).to(tl.pointer_type(tl.uint64))
    tl.store(end_ptr, (num_tiles * 0).to(tl.uint64), mask=num_tiles % 2 == 1)


@triton.jit
def close_kernel(body_ptr, state_ptr, moved_ptr, num_tiles, max_residue_bytes, G: tl.constexpr):
    """Write the header, and move the symbol section up to the end of a shorter residue section.

    The move is in place. A chunk is stored once the chunks that lie where it goes have been read,
    which are earlier ones: `moved_ptr` has a flag for each.
    """
    last_ptr = state_ptr + STATE_HEAD + 2 * (num_tiles - 1)
    residue_bytes = tl.load(last_ptr) >> 2
    symbol_bytes = tl.load(last_ptr + 1) >> 2
    if G.slotted:
        residue_bytes += max_residue_bytes
        symbol_bytes += num_tiles * G.symbol_slot_bytes
    if tl.program_id(0) == 0:
        store_header(body_ptr, residue_bytes * 0 + num_tiles, (residue_bytes, symbol_bytes), G)
    shift = max_residue_bytes - residue_bytes
    source_ptr = body_ptr + HEADER_BYTES + aligned(residue_bytes * 0 + num_tiles * ENTRY_BYTES) + max_residue_bytes
    words_ptr = source_ptr.to(tl.pointer_type(tl.uint64))
    if shift > 0:
        chunk = tl.atomic_add(state_ptr + 1, 1)
        while chunk * CHUNK_BYTES < symbol_bytes:
            word = chunk * (CHUNK_BYTES // 8) + tl.arange(0, CHUNK_BYTES // 8)
            words = tl.load(words_ptr + word, mask=word * 8 < symbol_bytes, other=0)
            tl.debug_barrier()
            tl.atomic_xchg(moved_ptr + chunk, 1, sem="release")
            start = chunk * CHUNK_BYTES - shift
            if start > -CHUNK_BYTES:
                # Floor division: the sum is not negative.
                under = (start + CHUNK_BYTES) // CHUNK_BYTES - 1
                while (under >= 0) & (tl.atomic_add(moved_ptr + tl.maximum(under, 0), 0, sem="acquire") == 0):
                    pass
                while tl.atomic_add(moved_ptr + under + 1, 0, sem="acquire") == 0:
                    pass
            tl.debug_barrier()
            tl.store(words_ptr + word - shift // 8, words, mask=word * 8 < symbol_bytes)
            chunk = tl.atomic_add(state_ptr + 1, 1)
