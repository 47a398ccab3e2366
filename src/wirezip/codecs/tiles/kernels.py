"""Device functions that the tiled codecs share: units of words, residue planes, bit fields.

A unit is 4 bytes of the tensor, or 8 of float64: 4, 2 or 1 words side by side, its lanes. Arithmetic
works on all lanes of a unit at once, which is what makes the kernels fast: 2-byte words would
otherwise cost an instruction each.

Arguments that recur:

- `G`: constexpr `launch.Geometry`, the facts of dtype and body that a kernel is compiled for.
- `words_ptr`: the words of one tile, unsigned; `size`: its elements and columns.
- `FULL`: constexpr, whether the tile is full; then `size` is constant and nothing is masked.
- `unit`: the units of a row that a call works on; `row`: a row, constant or not.
- `x`: one unit tensor; `ordered`: a word as exponent, sign, mantissa.
- `constant_planes`: the mask of the directory entry.

Elements lie row by row over 8 rows, so the bit fields of a column are packed by one thread, in registers.
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
def either(a, b):
    """Combine bits in a reduction."""
    return a | b


@triton.jit
def popcount32(mask):
    """Return the number of ones in uint32."""
    pairs = mask - ((mask >> 1) & 0x55555555)
    nibbles = (pairs & 0x33333333) + ((pairs >> 2) & 0x33333333)
    return ((((nibbles + (nibbles >> 4)) & 0x0F0F0F0F) * 0x01010101) >> 24).to(tl.int32)


@triton.jit
def lowest_bit32(mask):
    """Return the number of the lowest one in uint32."""
    lowest = (mask & (0 - mask)).to(tl.float32)
    return (lowest.to(tl.uint32, bitcast=True) >> 23).to(tl.int32) - 127


@triton.jit
def lowest_bit64(mask):
    """Return the number of the lowest one in uint64."""
    low = mask.to(tl.uint32)
    return tl.where(low != 0, lowest_bit32(low), 32 + lowest_bit32((mask >> 32).to(tl.uint32)))


@triton.jit
def lowest_bit(mask):
    """Return the number of the lowest one in masks of 32 or 64 bits."""
    return lowest_bit64(mask) if mask.dtype == tl.uint64 else lowest_bit32(mask)


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
def load_unit(words_ptr, row, unit, size, fill, FULL: tl.constexpr, G: tl.constexpr):
    """Load units of a row; places without an element get `fill`."""
    numel, columns = size
    LANES: tl.constexpr = G.lanes
    UNIT: tl.constexpr = tl.uint64 if G.word_bits == 64 else tl.uint32
    if FULL and G.words_aligned:
        x = tl.load(words_ptr.to(tl.pointer_type(UNIT)) + row * (columns // LANES) + unit)
    else:
        x = tl.zeros(unit.shape, UNIT)
        for lane in tl.static_range(LANES):
            column = unit * LANES + lane
            index = row * columns + column
            word = tl.load(words_ptr + index, mask=(column < columns) & (index < numel), other=fill)
            x |= word.to(UNIT) << (lane * G.word_bits)
    return x


@triton.jit
def store_unit(words_ptr, x, row, unit, size, FULL: tl.constexpr, G: tl.constexpr):
    """Store units of a row."""
    numel, columns = size
    LANES: tl.constexpr = G.lanes
    WORD: tl.constexpr = words_ptr.dtype.element_ty
    if FULL and G.words_aligned:
        tl.store(words_ptr.to(tl.pointer_type(x.dtype)) + row * (columns // LANES) + unit, x)
    else:
        for lane in tl.static_range(LANES):
            column = unit * LANES + lane
            index = row * columns + column
            word = (x >> (lane * G.word_bits)).to(WORD)
            tl.store(words_ptr + index, word, mask=(column < columns) & (index < numel))


@triton.jit
def existing_bits(row, unit, size, G: tl.constexpr):
    """Return units with ones where there are elements."""
    numel, columns = size
    LANES: tl.constexpr = G.lanes
    UNIT: tl.constexpr = tl.uint64 if G.word_bits == 64 else tl.uint32
    bits = tl.zeros(unit.shape, UNIT)
    for lane in tl.static_range(LANES):
        column = unit * LANES + lane
        inside = (column < columns) & (row * columns + column < numel)
        bits |= tl.where(inside, (1 << G.word_bits) - 1, 0).to(UNIT) << (lane * G.word_bits)
    return bits


@triton.jit
def value_lanes(x, G: tl.constexpr):
    """Return the exponents of units, in lanes of uint32."""
    VALUES: tl.constexpr = ((1 << G.exponent_bits) - 1) * G.ones
    return (x >> G.mantissa_bits).to(tl.uint32) & VALUES


@triton.jit
def lower_lanes(x, G: tl.constexpr):
    """Return sign and mantissa of units, the ordered word without its exponent."""
    MANTISSA: tl.constexpr = G.mantissa_bits
    SHIFT: tl.constexpr = G.word_bits - 1 - MANTISSA
    return ((x >> SHIFT) & (G.ones << MANTISSA)) | (x & (((1 << MANTISSA) - 1) * G.ones))


@triton.jit
def units_of(values, lower, G: tl.constexpr):
    """Return units of exponents, uint32, and what `lower_lanes` gave."""
    MANTISSA: tl.constexpr = G.mantissa_bits
    SHIFT: tl.constexpr = G.word_bits - 1 - MANTISSA
    VALUES: tl.constexpr = ((1 << G.exponent_bits) - 1) * G.ones
    x = (values & VALUES).to(lower.dtype) << MANTISSA
    return x | ((lower & (G.ones << MANTISSA)) << SHIFT) | (lower & (((1 << MANTISSA) - 1) * G.ones))


@triton.jit
def octets_of(x, shift, G: tl.constexpr):
    """Return bits `shift` to `shift + 7` of every lane of units, side by side."""
    LANES: tl.constexpr = G.lanes
    octets = (x >> shift) & (G.ones * 255)
    if LANES == 1:
        octets = octets.to(tl.uint8)
    elif LANES == 2:
        octets = (octets | (octets >> 8)).to(tl.uint16)
    return octets


@triton.jit
def lanes_of(octets, G: tl.constexpr):
    """Undo `octets_of`: bytes side by side to lanes of uint32."""
    x = octets.to(tl.uint32)
    if G.lanes == 2:
        x = (x | (x << 8)) & 0x00FF00FF
    return x


@triton.jit
def octets_pointer(bytes_ptr, G: tl.constexpr):
    """Return a pointer to bytes as one to the bytes of a unit."""
    OCTETS: tl.constexpr = tl.uint8 if G.lanes == 1 else (tl.uint16 if G.lanes == 2 else tl.uint32)
    return bytes_ptr.to(tl.pointer_type(OCTETS))


@triton.jit
def store_octets(bytes_ptr, octets, row, unit, size, FULL: tl.constexpr, G: tl.constexpr):
    """Store one byte for each element of a row, and the padding after the last."""
    numel, columns = size
    index = row * (columns // G.lanes) + unit
    if FULL:
        tl.store(octets_pointer(bytes_ptr, G) + index, octets)
    else:
        inside = (unit * G.lanes < columns) & (index * G.lanes < aligned(numel))
        tl.store(octets_pointer(bytes_ptr, G) + index, octets, mask=inside)


@triton.jit
def load_octets(bytes_ptr, row, unit, size, wanted, FULL: tl.constexpr, G: tl.constexpr):
    """Return one byte for each element of a row as lanes, zero unless `wanted`."""
    numel, columns = size
    index = row * (columns // G.lanes) + unit
    if not FULL:
        wanted = wanted & (unit * G.lanes < columns) & (index * G.lanes < numel)
    return lanes_of(tl.load(octets_pointer(bytes_ptr, G) + index, mask=wanted, other=0), G)


@triton.jit
def folded(unit, G: tl.constexpr):
    """Return the bits of all lanes of one unit in the lowest."""
    if G.lanes == 4:
        unit = unit | (unit >> 16)
        unit = unit | (unit >> 8)
    if G.lanes == 2:
        unit = unit | (unit >> 16)
    return unit.to(tl.uint64) & ((1 << G.word_bits) - 1)


@triton.jit
def find_constants(varying, G: tl.constexpr):
    """Return the mask of constant planes, and whether the value is constant.

    `varying` has ones, in an ordered word of 64 bits, where a tile's words differ from its first one.
    """
    PLANES: tl.constexpr = G.residue_planes
    constant_planes = (varying & 0).to(tl.int32)
    for plane in tl.static_range(PLANES):
        constant_planes |= (((varying >> (8 * plane)) & 0xFF) == 0).to(tl.int32) << plane
    if G.remainder_bits > 0:
        remainder = (varying >> (8 * PLANES)) & ((1 << G.remainder_bits) - 1)
        constant_planes |= (remainder == 0).to(tl.int32) << REMAINDER_BIT
    return constant_planes, (varying >> G.value_shift) == 0


@triton.jit
def varying_planes(constant_planes, G: tl.constexpr):
    """Return how many byte planes are not constant."""
    PLANES: tl.constexpr = G.residue_planes
    count = (constant_planes & 0) + PLANES
    for plane in tl.static_range(PLANES):
        count -= (constant_planes >> plane) & 1
    return count


@triton.jit
def zero_fields(unit, G: tl.constexpr):
    """Return an empty accumulator for `add_field`: columns of fields, in lanes of at least 16 bits.

    Rows 0 to 3 and rows 4 to 7 of a column are kept apart, and so are even and odd lanes of 8 bits.
    """
    low = tl.zeros(unit.shape, tl.uint32)
    fields = (low, low)
    if G.lanes == 4:
        fields = (low, low, low, low)
    return fields


@triton.jit
def add_field(fields, field, row, width, G: tl.constexpr):
    """Add a row of bit fields of `width` bits, lanes of uint32, to columns of fields."""
    shift = (row & 3) * width
    if G.lanes == 4:
        even = (field & 0x00FF00FF) << shift
        odd = ((field >> 8) & 0x00FF00FF) << shift
        low = (fields[0] + tl.where(row < 4, even, 0), fields[1] + tl.where(row < 4, 0, even))
        fields = low + (fields[2] + tl.where(row < 4, odd, 0), fields[3] + tl.where(row < 4, 0, odd))
    else:
        moved = field << shift
        fields = (fields[0] + tl.where(row < 4, moved, 0), fields[1] + tl.where(row < 4, 0, moved))
    return fields


@triton.jit
def joined_halves(low, high, width, ONES: tl.constexpr):
    """Return the two lower and the two upper bytes of columns of fields, in lanes of 16 bits."""
    shift = 4 * width
    below = low | ((high << shift) & (((0xFFFF << shift) & 0xFFFF) * ONES))
    return below, (high >> (16 - shift)) & ((0xFFFF >> (16 - shift)) * ONES)


@triton.jit
def field_octets(fields, width, octet: tl.constexpr, MOST: tl.constexpr, G: tl.constexpr):
    """Return byte `octet` of every column of fields of at most `MOST` bits, side by side."""
    SHIFT: tl.constexpr = 8 * (octet % 2)
    if G.lanes == 1:
        COLUMN: tl.constexpr = tl.uint64 if MOST > 4 else tl.uint32
        column = fields[0].to(COLUMN) | (fields[1].to(COLUMN) << (4 * width))
        octets = (column >> (8 * octet)).to(tl.uint8)
    elif G.lanes == 2:
        halves = joined_halves(fields[0], fields[1], width, 0x00010001)
        octets = octets_of(halves[octet // 2], SHIFT, G)
    else:
        even = joined_halves(fields[0], fields[1], width, 0x00010001)
        odd = joined_halves(fields[2], fields[3], width, 0x00010001)
        octets = (even[octet // 2] >> SHIFT) & 0x00FF00FF
        octets |= ((odd[octet // 2] >> SHIFT) & 0x00FF00FF) << 8
    return octets


@triton.jit
def store_fields(planes_ptr, fields, width, unit, columns, MOST: tl.constexpr, FULL: tl.constexpr, G: tl.constexpr):
    """Store columns of fields of `width` bits, at most `MOST`, as so many byte planes."""
    for octet in tl.static_range(MOST):
        if octet < width:
            plane_ptr = planes_ptr + known_aligned(octet * columns)
            store_octets(plane_ptr, field_octets(fields, width, octet, MOST, G), 0, unit, (columns, columns), FULL, G)


@triton.jit
def split_halves(below, above, width, ONES: tl.constexpr):
    """Undo `joined_halves`."""
    shift = 4 * width
    low = below & (((1 << shift) - 1) * ONES)
    high = ((below >> shift) & ((0xFFFF >> shift) * ONES)) | (above << (16 - shift))
    return low, high & (((1 << shift) - 1) * ONES)


@triton.jit
def load_fields(planes_ptr, width, unit, columns, wanted, MOST: tl.constexpr, FULL: tl.constexpr, G: tl.constexpr):
    """Undo `store_fields`: return columns of fields, zero unless `wanted`."""
    planes = ()
    for octet in tl.static_range(MOST):
        plane_ptr = planes_ptr + known_aligned(octet * columns)
        planes = planes + (load_octets(plane_ptr, 0, unit, (columns, columns), wanted & (octet < width), FULL, G),)
    for _ in tl.static_range(MOST, 4):
        planes = planes + (tl.zeros(unit.shape, tl.uint32),)
    if G.lanes == 1:
        COLUMN: tl.constexpr = tl.uint64 if MOST > 4 else tl.uint32
        column = (planes[0] | (planes[1] << 8) | (planes[2] << 16) | (planes[3] << 24)).to(COLUMN)
        if MOST > 4:
            column |= planes[4].to(COLUMN) << 32
        low = (column & ((1 << (4 * width)) - 1)).to(tl.uint32)
        fields = (low, (column >> (4 * width)).to(tl.uint32))
    elif G.lanes == 2:
        fields = split_halves(planes[0] | (planes[1] << 8), planes[2] | (planes[3] << 8), width, 0x00010001)
    else:
        even = 0x00FF00FF
        odd = 0xFF00FF00
        below = (planes[0] & even) | ((planes[1] & even) << 8)
        above = (planes[2] & even) | ((planes[3] & even) << 8)
        fields = split_halves(below, above, width, 0x00010001)
        below = ((planes[0] >> 8) & even) | (planes[1] & odd)
        above = ((planes[2] >> 8) & even) | (planes[3] & odd)
        fields = fields + split_halves(below, above, width, 0x00010001)
    return fields


@triton.jit
def field_of(fields, row, width, G: tl.constexpr):
    """Return a row of bit fields of `width` bits from columns of fields, as lanes of uint32."""
    shift = (row & 3) * width
    ones = ((1 << width) - 1) * G.ones
    if G.lanes == 4:
        ones = ((1 << width) - 1) * 0x00010001
        even = (tl.where(row < 4, fields[0], fields[1]) >> shift) & ones
        field = even | (((tl.where(row < 4, fields[2], fields[3]) >> shift) & ones) << 8)
    else:
        field = (tl.where(row < 4, fields[0], fields[1]) >> shift) & ones
    return field


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
def store_padding(symbols_ptr, end):
    """Store zeros from `end` to the alignment."""
    octet = end + tl.arange(0, ALIGNMENT)
    tl.store(symbols_ptr + octet, tl.zeros([ALIGNMENT], tl.uint8), mask=octet < aligned(end))
