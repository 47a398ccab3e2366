"""Where tensors and tiles are: headers, directory entries, look-back, batches.

Arguments are named in `wirezip.codecs.tiles.kernels`. Further ones:

- `body_ptr`: the body, bytes, aligned to 16; `section_ptr`: where its records are.
- `state_ptr`: int64, a word for each tile of a body: bytes, shifted left by 2, with one of the levels
  below; zero where nothing is known.
- `job_ptr`: int64, `JOB_WORDS` for each tensor of a batch: how far words and body are from `words_ptr`
  and `body_ptr`, elements, bytes of the body, and the tensor's first tile and first segment among all.
- `task`: number of a tile or segment among all of a batch; `tile`: within its tensor.
"""

import triton
import triton.language as tl

from wirezip.codecs.tiles.kernels import ALIGNMENT, known_aligned

HEADER_BYTES = tl.constexpr(32)
ENTRY_BYTES = tl.constexpr(16)
# What is known of a tile's place: its own bytes, or those of all tiles up to it.
OWN = tl.constexpr(1)
PREFIX = tl.constexpr(2)
JOB_WORDS = tl.constexpr(6)
JOB_TILE = tl.constexpr(4)
JOB_SEGMENT = tl.constexpr(5)
# Offset of the section's bytes in the header, in words of 8 bytes, and the first word without placement.
SECTION_WORD = tl.constexpr(2)
GEOMETRY_MASK = tl.constexpr((1 << 64) - 1 - (1 << 16))
# What stands for the header where a tile's number would be.
HEADER_ERROR = tl.constexpr(-1)


@triton.jit
def find_job(job_ptr, task, num_jobs, FIELD: tl.constexpr):
    """Return the last tensor of a batch whose first tile, or segment, is not beyond `task`."""
    low = num_jobs * 0
    high = num_jobs
    while high - low > 1:
        middle = (low + high) // 2
        if tl.load(job_ptr + middle * JOB_WORDS + FIELD) <= task:
            low = middle
        else:
            high = middle
    return low


@triton.jit
def locate(words_ptr, body_ptr, job_ptr, task, sizes, FIELD: tl.constexpr, G: tl.constexpr):
    """Return words, body, number and facts of the tensor that a task belongs to.

    The facts are elements, bytes of the body, first tile and first segment. `sizes` are the former two
    or, in a batch, the number of tensors and 0.
    """
    first = task * 0
    job = first
    if G.batch:
        job = find_job(job_ptr, task, first + sizes[0], FIELD)
        job_ptr += job * JOB_WORDS
        # Offsets are in bytes and multiples of 16, which a pointer loaded from memory could not show.
        words_ptr += known_aligned(tl.load(job_ptr)) // (G.word_bits // 8)
        body_ptr += known_aligned(tl.load(job_ptr + 1))
        facts = (
            tl.load(job_ptr + 2),
            tl.load(job_ptr + 3),
            tl.load(job_ptr + JOB_TILE),
            tl.load(job_ptr + JOB_SEGMENT),
        )
    else:
        facts = (first + sizes[0], first + sizes[1], first, first)
    return words_ptr, body_ptr, job, facts


@triton.jit
def num_tiles_of(numel, G: tl.constexpr):
    """Return the tiles of a tensor."""
    return (numel + (G.tile_elems - 1)) // G.tile_elems


@triton.jit
def section_pointer(body_ptr, num_tiles):
    """Return where the records of a body are."""
    return body_ptr + HEADER_BYTES + known_aligned(num_tiles * ENTRY_BYTES)


@triton.jit
def publish(state_ptr, tile, num_bytes, LEVEL: tl.constexpr):
    """Let the tiles after this one know its bytes, or where it ends."""
    tl.atomic_xchg(state_ptr + tile, (num_bytes << 2) | LEVEL, sem="relaxed")


@triton.jit
def place_tile(state_ptr, tile, num_bytes, G: tl.constexpr):
    """Return the offset of a tile's record, from the bytes of all tiles before it.

    Decoupled look-back (Merrill and Garland, 2016): each tile publishes its bytes, adds up those
    before it back to the nearest tile that knows its own place, then publishes its place. A size
    travels in one word with its level, so no ordering between words is needed. Programs start in
    the order of their numbers, so those waited for are running already.
    """
    before = tile * G.slot_bytes
    if not G.slotted:
        num_bytes = num_bytes.to(tl.int64)
        before = tile * 0
        if tile > 0:
            publish(state_ptr, tile, num_bytes, OWN)
        LOOKBACK: tl.constexpr = G.lookback
        lane = tl.arange(0, LOOKBACK)
        end = tile
        while end > 0:
            index = end - 1 - lane
            word = tl.load(state_ptr + index, mask=index >= 0, other=PREFIX, volatile=True)
            level = (word & 3).to(tl.int32)
            # The nearest tile of which more, or less, is known than its own bytes.
            nearest = tl.min(tl.where(level == OWN, LOOKBACK * 4 + OWN, lane * 4 + level), 0)
            if (nearest & 3) != 0:
                before += tl.sum(tl.where(lane <= nearest >> 2, word >> 2, 0), 0)
                end = tl.where((nearest & 3) == PREFIX, 0, end - LOOKBACK)
        publish(state_ptr, tile, before + num_bytes, PREFIX)
    return known_aligned(before)


@triton.jit
def store_entry(body_ptr, tile, offset, fields):
    """Store a directory entry; `fields` are num_escapes, base, width and constant_planes."""
    entry_ptr = (body_ptr + HEADER_BYTES + tile * ENTRY_BYTES).to(tl.pointer_type(tl.uint64))
    tl.store(entry_ptr, offset.to(tl.uint64))
    low = fields[0].to(tl.uint64) | (fields[1].to(tl.uint64) << 16)
    tl.store(entry_ptr + 1, low | (fields[2].to(tl.uint64) << 32) | (fields[3].to(tl.uint64) << 40))


@triton.jit
def load_entry(body_ptr, tile):
    """Return offset as uint64; num_escapes, base, width, constant_planes; and whether it has stray bits."""
    entry_ptr = (body_ptr + HEADER_BYTES + tile * ENTRY_BYTES).to(tl.pointer_type(tl.uint64))
    fields = tl.load(entry_ptr + 1)
    escapes = (fields & 0xFFFF).to(tl.int32)
    base = ((fields >> 16) & 0xFFFF).to(tl.int32)
    width = ((fields >> 32) & 0xFF).to(tl.int32)
    constant_planes = ((fields >> 40) & 0xFF).to(tl.int32)
    return tl.load(entry_ptr), escapes, base, width, constant_planes, (fields >> 48) != 0


@triton.jit
def outside(offset, num_bytes, section_bytes):
    """Return whether bytes at an offset, which may be any 64-bit number, leave their section."""
    room = section_bytes.to(tl.uint64)
    size = num_bytes.to(tl.uint64)
    # Compared by subtraction, because an offset near 2**64 would wrap in a sum.
    return (size > room) | (offset > room - tl.minimum(size, room)) | ((offset & (ALIGNMENT - 1)) != 0)


@triton.jit
def store_header(body_ptr, num_tiles, section_bytes, G: tl.constexpr):
    """Store the header of a body."""
    header_ptr = body_ptr.to(tl.pointer_type(tl.uint64))
    section_bytes = section_bytes.to(tl.uint64)
    tl.store(header_ptr, section_bytes * 0 + G.header_word)
    tl.store(header_ptr + 1, num_tiles.to(tl.uint64))
    tl.store(header_ptr + SECTION_WORD, section_bytes)
    tl.store(header_ptr + 3, section_bytes * 0)


@triton.jit
def finish_tile(body_ptr, tile, num_tiles, end, G: tl.constexpr):
    """Store the header of a body once its last tile, whose record ends at `end`, has its place."""
    if tile == num_tiles - 1:
        section_bytes = end.to(tl.int64)
        if G.slotted:
            section_bytes = num_tiles * G.slot_bytes
        store_header(body_ptr, num_tiles, section_bytes, G)


@triton.jit
def load_section_bytes(body_ptr, num_tiles, body_bytes, G: tl.constexpr):
    """Return the bytes of a body's section, and whether its header is not what is expected.

    The header must name the geometry that the kernel is compiled for, in either placement. `body_bytes`
    are those that may be read: exactly the body's, or more where G.slack.
    """
    header_ptr = body_ptr.to(tl.pointer_type(tl.uint64))
    fits = body_bytes >= HEADER_BYTES + num_tiles * ENTRY_BYTES
    word = tl.load(header_ptr, mask=fits, other=0)
    section_bytes = tl.load(header_ptr + SECTION_WORD, mask=fits, other=0)
    wrong = (fits == 0) | (((word ^ G.header_word) & GEOMETRY_MASK) != 0)
    wrong |= tl.load(header_ptr + 1, mask=fits, other=0) != num_tiles.to(tl.uint64)
    wrong |= tl.load(header_ptr + 3, mask=fits, other=0) != 0
    room = (body_bytes - HEADER_BYTES - num_tiles * ENTRY_BYTES).to(tl.uint64)
    wrong |= (section_bytes > room) if G.slack else (section_bytes != room)
    return section_bytes.to(tl.int64), wrong
