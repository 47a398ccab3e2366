"""Device functions that the tiled codecs share, and the kernel that closes a packed body.

Arguments that recur:

- `G`: constexpr `launch.Geometry`, the facts of dtype and body that a kernel is compiled for.
- `words_ptr`: the tensor's words, or those of one tile, unsigned; `rows`: the ordered words of a
  tile as a tuple of 8 tensors of `G.columns`, zero past the tile's end.
- `numel`, `columns`: elements and columns of one tile, `size` both; constants where it is full.
- `column`: the columns that a call works on, `index` the elements.
- `body_ptr`: the body, bytes, aligned to 16; `residue_ptr`, `symbols_ptr`: its sections.
- `state_ptr`: int64: a ticket counter, the counter of `close_kernel`, then two words a tile:
  residue and symbol bytes, shifted left by 2, with one of the levels below.
- `constant_planes`: the mask of the directory entry.

Elements lie row by row over 8 rows, so bit fields of a column are packed by one thread, in registers.
"""

import triton
import triton.language as tl

ROWS = tl.constexpr(8)
ALIGNMENT = tl.constexpr(16)
STORED = tl.constexpr(255)
REMAINDER_BIT = tl.constexpr(7)
BYTE_PLANES_MASK = tl.constexpr((1 << 7) - 1)
CONSTANT_BLOCK_BYTES = tl.constexpr(16)
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
def order_bits(words, G: tl.constexpr):
    """Reorder the fields of words to exponent, sign, mantissa."""
    BITS: tl.constexpr = words.dtype.primitive_bitwidth
    MANTISSA: tl.constexpr = G.mantissa_bits
    exponent = ((words << 1) >> (MANTISSA + 1)) << (MANTISSA + 1)
    return exponent | ((words >> (BITS - 1)) << MANTISSA) | (words & ((1 << MANTISSA) - 1))


@triton.jit
def restore_bits(ordered, G: tl.constexpr):
    """Undo `order_bits`."""
    BITS: tl.constexpr = ordered.dtype.primitive_bitwidth
    MANTISSA: tl.constexpr = G.mantissa_bits
    exponent = (ordered >> (MANTISSA + 1)) << MANTISSA
    return ((ordered >> MANTISSA) << (BITS - 1)) | exponent | (ordered & ((1 << MANTISSA) - 1))


@triton.jit
def known_aligned(offset):
    """Return a multiple of 16 in a form that shows the compiler that it is one."""
    return (offset >> 4) * ALIGNMENT


@triton.jit
def aligned(num_bytes):
    """Return `num_bytes` rounded up to the section alignment."""
    return (num_bytes + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


@triton.jit
def columns_of(numel):
    """Return the columns that `numel` elements fill when dealt over the rows."""
    return aligned((numel + (ROWS - 1)) // ROWS)


@triton.jit
def load_rows(words_ptr, column, numel, columns, G: tl.constexpr):
    """Load columns of a tile, as rows of ordered words."""
    rows = ()
    for row in tl.static_range(ROWS):
        index = row * columns + column
        words = tl.load(words_ptr + index, mask=(column < columns) & (index < numel), other=0)
        rows = rows + (order_bits(words, G),)
    return rows


@triton.jit
def store_rows(words_ptr, rows, column, size):
    """Store words as columns of a tile."""
    numel, columns = size
    for row in tl.static_range(ROWS):
        index = row * columns + column
        tl.store(words_ptr + index, rows[row], mask=(column < columns) & (index < numel))


@triton.jit
def find_constants(varying, G: tl.constexpr):
    """Return the mask of constant planes, and whether the value is constant.

    `varying` has the bits that differ from the first word. Fields of 16 bits count where a plane
    varies: one native sum instead of a reduction for every plane.
    """
    PLANES: tl.constexpr = G.residue_planes
    REMAINDER: tl.constexpr = G.remainder_bits
    NARROW: tl.constexpr = PLANES + (REMAINDER > 0) < 2
    SUM: tl.constexpr = tl.int32 if NARROW else tl.int64
    counts = ((varying >> (8 * PLANES + REMAINDER)) != 0).to(SUM)
    beyond = tl.zeros_like(counts)
    for plane in tl.static_range(PLANES):
        differs = (((varying >> (8 * plane)) & 0xFF) != 0).to(SUM)
        if plane < 3:
            counts += differs << (16 * (plane + 1))
        else:
            beyond += differs << (16 * (plane - 3))
    if REMAINDER > 0:
        differs = (((varying >> (8 * PLANES)) & ((1 << REMAINDER) - 1)) != 0).to(SUM)
        if PLANES < 3:
            counts += differs << (16 * (PLANES + 1))
        else:
            beyond += differs << (16 * (PLANES - 3))
    near = tl.sum(counts, 0)
    far = tl.sum(beyond, 0) if PLANES + (REMAINDER > 0) > 3 else near
    constant_planes = (near & 0).to(tl.int32)
    for plane in tl.static_range(PLANES):
        count = (near >> (16 * (plane + 1))) if plane < 3 else (far >> (16 * (plane - 3)))
        constant_planes += ((count & 0xFFFF) == 0).to(tl.int32) << plane
    if REMAINDER > 0:
        count = (near >> (16 * (PLANES + 1))) if PLANES < 3 else (far >> (16 * (PLANES - 3)))
        constant_planes += ((count & 0xFFFF) == 0).to(tl.int32) << REMAINDER_BIT
    return constant_planes, (near & 0xFFFF) == 0


@triton.jit
def byte_planes(constant_planes, G: tl.constexpr):
    """Return how many byte planes are constant."""
    count = 0
    PLANES: tl.constexpr = G.residue_planes
    for plane in tl.static_range(PLANES):
        count += (constant_planes >> plane) & 1
    return count


@triton.jit
def store_residue(residue_ptr, rows, column, size, constant_planes, G: tl.constexpr):
    """Store the residue planes of columns that are not constant."""
    numel, columns = size
    plane_bytes = aligned(numel)
    start = 0
    PLANES: tl.constexpr = G.residue_planes
    for plane in tl.static_range(PLANES):
        varies = ((constant_planes >> plane) & 1) ^ 1
        if varies != 0:
            plane_ptr = residue_ptr + start
            for row in tl.static_range(ROWS):
                index = row * columns + column
                octets = (rows[row] >> (8 * plane)).to(tl.uint8)
                tl.store(plane_ptr + index, octets, mask=(column < columns) & (index < plane_bytes))
        start += varies * plane_bytes


@triton.jit
def load_residue(residue_ptr, index, inside, planes, WORD: tl.constexpr, G: tl.constexpr):
    """Return the residue of the elements at `index`; `planes` are numel, constant_planes and their block."""
    numel, constant_planes, block = planes
    plane_bytes = aligned(numel)
    PLANES: tl.constexpr = G.residue_planes
    start = 0
    residue = tl.zeros_like(index).to(WORD)
    for plane in tl.static_range(PLANES):
        varies = ((constant_planes >> plane) & 1) ^ 1
        octets = tl.load(residue_ptr + start + index, mask=inside & (varies != 0), other=0).to(WORD)
        octets |= (((block >> (8 * plane)) & 0xFF) * (1 - varies)).to(WORD)
        residue |= octets << (8 * plane)
        start += varies * plane_bytes
    return residue


@triton.jit
def store_constant_block(symbols_ptr, first, constant_planes, G: tl.constexpr):
    """Store the constant block of a tile whose first ordered word is `first`."""
    # Byte p of the block is byte p of the word, so the block is the word under a mask.
    wide = first.to(tl.uint64)
    PLANES: tl.constexpr = G.residue_planes
    block = wide & 0
    for plane in tl.static_range(PLANES):
        block |= wide & (((constant_planes >> plane) & 1).to(tl.uint64) * 0xFF << (8 * plane))
    if G.remainder_bits > 0:
        remainder = (wide >> (8 * PLANES)) & ((1 << G.remainder_bits) - 1)
        block |= remainder * ((constant_planes >> REMAINDER_BIT) & 1).to(tl.uint64) << 56
    block_ptr = symbols_ptr.to(tl.pointer_type(tl.uint64))
    tl.store(block_ptr, block, mask=constant_planes != 0)
    tl.store(block_ptr + 1, wide & 0, mask=constant_planes != 0)


@triton.jit
def store_plane(fields_ptr, fields, shift, column, columns, WIDTH: tl.constexpr):
    """Store bits `shift` to `shift + WIDTH - 1` of the fields as one bit plane."""
    packed = tl.zeros_like(fields[0])
    for row in tl.static_range(ROWS):
        packed |= ((fields[row] >> shift) & ((1 << WIDTH) - 1)) << (WIDTH * row)
    UNIT: tl.constexpr = tl.uint32 if WIDTH == 4 else (tl.uint16 if WIDTH == 2 else tl.uint8)
    plane_ptr = fields_ptr.to(tl.pointer_type(UNIT))
    tl.store(plane_ptr + column, packed.to(UNIT), mask=column < columns)


@triton.jit
def store_fields(fields_ptr, fields, column, columns, NUM_BITS: tl.constexpr):
    """Store bit fields of `NUM_BITS` as planes of 4, 2 and 1 bits, low bits first."""
    if NUM_BITS & 4:
        store_plane(fields_ptr, fields, 0, column, columns, 4)
    if NUM_BITS & 2:
        store_plane(fields_ptr + (NUM_BITS & 4) * columns, fields, NUM_BITS & 4, column, columns, 2)
    if NUM_BITS & 1:
        store_plane(fields_ptr + (NUM_BITS & 6) * columns, fields, NUM_BITS & 6, column, columns, 1)


@triton.jit
def store_remainder(fields_ptr, rows, column, columns, G: tl.constexpr):
    """Store the remainder of the heads as bit fields."""
    fields = ()
    for row in tl.static_range(ROWS):
        fields = fields + ((rows[row] >> (8 * G.residue_planes)).to(tl.uint32),)
    store_fields(fields_ptr, fields, column, columns, G.remainder_bits)


@triton.jit
def load_plane(fields_ptr, column, wanted, WIDTH: tl.constexpr):
    """Return columns of a bit plane as uint32, zero unless `wanted`."""
    UNIT: tl.constexpr = tl.uint32 if WIDTH == 4 else (tl.uint16 if WIDTH == 2 else tl.uint8)
    return tl.load(fields_ptr.to(tl.pointer_type(UNIT)) + column, mask=wanted, other=0).to(tl.uint32)


@triton.jit
def load_planes(fields_ptr, column, columns, wanted, NUM_BITS: tl.constexpr):
    """Return the planes of bit fields of `NUM_BITS`, those of 4, 2 and 1 bits that there are."""
    planes = ()
    if NUM_BITS & 4:
        planes = planes + (load_plane(fields_ptr, column, wanted, 4),)
    if NUM_BITS & 2:
        planes = planes + (load_plane(fields_ptr + (NUM_BITS & 4) * columns, column, wanted, 2),)
    if NUM_BITS & 1:
        planes = planes + (load_plane(fields_ptr + (NUM_BITS & 6) * columns, column, wanted, 1),)
    return planes


@triton.jit
def field_of(planes, row, NUM_BITS: tl.constexpr):
    """Return the bit fields of a row from `load_planes`, as uint32."""
    field = tl.zeros_like(planes[0])
    if NUM_BITS & 4:
        field |= (planes[0] >> (4 * row)) & 15
    if NUM_BITS & 2:
        field |= ((planes[(NUM_BITS & 4) // 4] >> (2 * row)) & 3) << (NUM_BITS & 4)
    if NUM_BITS & 1:
        field |= ((planes[(NUM_BITS & 4) // 4 + (NUM_BITS & 2) // 2] >> row) & 1) << (NUM_BITS & 6)
    return field


@triton.jit
def store_heads(heads_ptr, rows, column, size, G: tl.constexpr):
    """Store the heads of a tile as they are."""
    numel, columns = size
    HEAD: tl.constexpr = tl.uint16 if G.head_bytes == 2 else tl.uint8
    for row in tl.static_range(ROWS):
        index = row * columns + column
        head = (rows[row] >> (8 * G.residue_planes)).to(HEAD)
        tl.store(heads_ptr.to(tl.pointer_type(HEAD)) + index, head, mask=(column < columns) & (index < numel))


@triton.jit
def load_heads(heads_ptr, index, wanted, G: tl.constexpr):
    """Return the heads of the elements at `index`, zero unless `wanted`."""
    HEAD: tl.constexpr = tl.uint16 if G.head_bytes == 2 else tl.uint8
    return tl.load(heads_ptr.to(tl.pointer_type(HEAD)) + index, mask=wanted, other=0)


@triton.jit
def store_padding(symbols_ptr, end):
    """Store zeros from `end` to the alignment."""
    octet = end + tl.arange(0, ALIGNMENT)
    tl.store(symbols_ptr + octet, tl.zeros([ALIGNMENT], tl.uint8), mask=octet < aligned(end))


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
