"""Runs of four elements of a lane in the `rans` decoder: what lies below their values, and how they are stored.

Arguments are named in `wirezip.codecs.rans.kernels_decode`. Further ones:

- `source`: pointers to residue and remainder, whether there is a remainder field, constant_planes and
  the constant block.
- `planes`: residue planes, and the remainders if any, of a run: 8 bits an element, as uint32;
  `constants`: those of constant planes, for every run.
"""

import triton
import triton.language as tl

from wirezip.codecs.rans.kernels_encode import ALL_ONES, GROUP_ELEMS, LANE_RUN, NUM_LANES
from wirezip.codecs.tiles.kernels import aligned, known_aligned, units_of
from wirezip.codecs.tiles.kernels_lower import units_of_heads

# A cache is filled by sectors; groups of which the residue is brought near at once.
SECTOR_BYTES = tl.constexpr(32)
SECTOR_WORDS = tl.constexpr(16)
NEAR_GROUPS = tl.constexpr(8)


@triton.jit
def values_of(symbols, base, G: tl.constexpr):
    """Undo `symbols_of`, in uint32."""
    if G.value_bytes > 1:
        above = tl.where(symbols == ALL_ONES, G.value_count - 1, symbols + base.to(tl.uint32) - 1)
        symbols = tl.where(symbols == 0, 0, above)
    return symbols


@triton.jit
def load_remainders(source, index, inside, columns, G: tl.constexpr):
    """Return the remainders of four elements from `index` on, 8 bits each, as uint32."""
    _, fields_ptr, varies, _, block = source
    BITS: tl.constexpr = G.remainder_bits
    row = (index // columns).to(tl.uint64)
    plane_ptr = fields_ptr + index % columns
    four = tl.zeros(index.shape, tl.uint32)
    for element in tl.static_range(LANE_RUN):
        column = tl.zeros(index.shape, tl.uint64)
        for plane in tl.static_range(BITS):
            octet = tl.load(plane_ptr + plane * columns + element, mask=inside & varies, other=0)
            column |= octet.to(tl.uint64) << (8 * plane)
        remainder = (column >> (BITS * row)).to(tl.uint32) & ((1 << BITS) - 1)
        four |= (remainder | ((block >> 56) & ((1 << BITS) - 1)).to(tl.uint32)) << (8 * element)
    return four


@triton.jit
def load_four(source, index, inside, size, G: tl.constexpr):
    """Return the residue planes, and the remainders if any, of four elements, 8 bits each, as uint32.

    `source` are pointers to residue and remainder, whether there is a remainder field,
    constant_planes and the constant block.
    """
    residue_ptr, _, _, constant_planes, _ = source
    numel, columns = size
    PLANES: tl.constexpr = G.residue_planes
    start = constant_planes * 0
    planes = ()
    for plane in tl.static_range(PLANES):
        varies = ((constant_planes >> plane) & 1) ^ 1
        plane_ptr = (residue_ptr + known_aligned(start)).to(tl.pointer_type(tl.uint32))
        planes = planes + (tl.load(plane_ptr + index // LANE_RUN, mask=inside & (varies != 0), other=0),)
        start += varies * aligned(numel)
    if G.remainder_bits > 0:
        planes = planes + (load_remainders(source, index, inside, columns, G),)
    return planes


@triton.jit
def constant_octets(constant_planes, block, G: tl.constexpr):
    """Return what constant planes have, 8 bits for each of four elements, as uint32; 0 for the others."""
    PLANES: tl.constexpr = G.residue_planes
    octets = ()
    for plane in tl.static_range(PLANES):
        octet = ((block >> (8 * plane)) & 0xFF) * ((constant_planes >> plane) & 1).to(tl.uint64)
        octets = octets + ((octet * 0x01010101).to(tl.uint32),)
    if G.remainder_bits > 0:
        # Constant remainders are in what `load_remainders` gives.
        octets = octets + ((block & 0).to(tl.uint32),)
    return octets


@triton.jit
def octets_at(four, element: tl.constexpr, G: tl.constexpr):
    """Return the bytes of the elements of a unit, of which the first is `element`, in lanes of uint32."""
    if G.lanes == 4:
        octets = four
    elif G.lanes == 2:
        octets = (four >> (8 * element)) & 0xFFFF
        octets = (octets | (octets << 8)) & 0x00FF00FF
    else:
        octets = (four >> (8 * element)) & 0xFF
    return octets


@triton.jit
def unit_of_run(values, planes, constants, element: tl.constexpr, G: tl.constexpr):
    """Return the unit that starts with an element of a run, from values and planes of the run."""
    UNIT: tl.constexpr = tl.uint64 if G.word_bits == 64 else tl.uint32
    LANES: tl.constexpr = G.lanes
    PLANES: tl.constexpr = G.residue_planes + (G.remainder_bits > 0)
    heads = values[element]
    for lane in tl.static_range(1, LANES):
        heads |= values[element + lane] << (lane * G.word_bits)
    lower = tl.zeros(heads.shape, UNIT)
    for plane in tl.static_range(PLANES):
        lower |= octets_at(planes[plane] | constants[plane], element, G).to(UNIT) << (8 * plane)
    return units_of(heads, lower, G) if G.head_bytes == 2 else units_of_heads(heads, lower, G)


@triton.jit
def store_run(lane_ptr, values, planes, constants, left, FULL: tl.constexpr, G: tl.constexpr):
    """Store four elements that follow one another, of which `left` exist."""
    LANES: tl.constexpr = G.lanes
    WORD: tl.constexpr = lane_ptr.dtype.element_ty
    if FULL and G.word_bits == 8:
        tl.store(lane_ptr.to(tl.pointer_type(tl.uint32)), unit_of_run(values, planes, constants, 0, G))
    elif FULL:
        for part in tl.static_range(G.word_bits // 16):
            x = unit_of_run(values, planes, constants, part * LANES * (2 if G.word_bits < 64 else 1), G)
            if G.word_bits < 64:
                above = unit_of_run(values, planes, constants, part * LANES * 2 + LANES, G)
                x = x.to(tl.uint64) | (above.to(tl.uint64) << 32)
            tl.store(lane_ptr.to(tl.pointer_type(tl.uint64)) + part, x)
    else:
        for first in tl.static_range(0, LANE_RUN, LANES):
            x = unit_of_run(values, planes, constants, first, G)
            for lane in tl.static_range(LANES):
                word = (x >> (lane * G.word_bits)).to(WORD)
                tl.store(lane_ptr + first + lane, word, mask=first + lane < left)


@triton.jit
def touch_residue(source, group, stream, length, size, G: tl.constexpr):
    """Bring the residue of a group, and of those decoded after it, near; returns what keeps the loads."""
    residue_ptr, _, _, constant_planes, _ = source
    PLANES: tl.constexpr = G.residue_planes
    SECTORS: tl.constexpr = NEAR_GROUPS * GROUP_ELEMS // SECTOR_BYTES // NUM_LANES
    touched = tl.zeros([NUM_LANES, stream.shape[0]], tl.uint32)
    lane = tl.arange(0, NUM_LANES)[:, None]
    start = constant_planes * 0
    for plane in tl.static_range(PLANES):
        varies = ((constant_planes >> plane) & 1) ^ 1
        for sector in tl.static_range(SECTORS):
            place = group - (NEAR_GROUPS - 1) * GROUP_ELEMS + (sector * NUM_LANES + lane) * SECTOR_BYTES
            inside = (place >= 0) & (place < length[None, :]) & (varies != 0)
            plane_ptr = residue_ptr + known_aligned(start) + (stream << G.log2_stream)[None, :]
            touched += tl.load(plane_ptr + place, mask=inside, other=0).to(tl.uint32)
        start += varies * aligned(size[0])
    return touched
