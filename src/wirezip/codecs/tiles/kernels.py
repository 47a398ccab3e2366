"""Device functions that the tiled codecs share: order of bits, residue planes, bit fields.

Arguments that recur:

- `G`: constexpr `launch.Geometry`, the facts of dtype and body that a kernel is compiled for.
- `words_ptr`: the tensor's words, or those of one tile, unsigned; `rows`: the ordered words of a
  tile as a tuple of 8 tensors of `G.columns`, zero past the tile's end.
- `numel`, `columns`: elements and columns of one tile, `size` both; constants where it is full.
- `column`: the columns that a call works on, `index` the elements.
- `body_ptr`: the body, bytes, aligned to 16; `residue_ptr`, `symbols_ptr`: its sections.
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
