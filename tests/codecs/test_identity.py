"""The implementations of a tiled codec make the same bytes, and each decodes what another made."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import torch

import wirezip
from wirezip import codecs
from wirezip.codecs import conformance
from wirezip.codecs.tiles import layout as tiled
from wirezip.floats import FLOAT_FORMATS, dtype_name

CODECS = ("window", "rans")
IMPLEMENTATIONS = ("reference", "cpu")
# The smallest tile of each codec, and the number of elements in its default tile.
SMALLEST = {"window": {"tile_elems": 1024}, "rans": {"tile_elems": 1024, "stream_elems": 1024}}
DEFAULT_TILE_BYTES = 1 << 14
ONE_MI_AND_3 = (1 << 20) + 3

every_codec = pytest.mark.parametrize("name", CODECS)
every_dtype = pytest.mark.parametrize("dtype", FLOAT_FORMATS, ids=dtype_name)


def encode_alike(name: str, values: torch.Tensor, what: str, **options) -> torch.Tensor:
    """Encode with every implementation, fail at the first byte that differs, decode with every one."""
    made = {kind: codecs.get(name, implementation=kind, **options) for kind in IMPLEMENTATIONS}
    bodies = {kind: codec.encode(values) for kind, codec in made.items()}
    expected = bodies["reference"]
    for kind, body in bodies.items():
        where = f"{name} {options}, {values.numel()} {values.dtype}, {what}: {kind}"
        assert body.numel() == expected.numel(), f"{where}: {body.numel()} bytes, reference {expected.numel()}"
        wrong = (body != expected).nonzero().flatten()
        assert not len(wrong), f"{where}: {len(wrong)} bytes differ from the reference, first {int(wrong[0])}"
        decoded = conformance.decode_guarded(made[kind], expected, values.numel(), values.dtype)
        same = conformance.octets(decoded) == conformance.octets(values)
        assert bool(same.all()), f"{where}: decoded otherwise from byte {int((~same).nonzero()[0])} on"
    return expected


def words(values: torch.Tensor) -> torch.Tensor:
    """Return the bit patterns, on which operations work that torch lacks for the 8-bit floats."""
    return values.view(FLOAT_FORMATS[values.dtype].word_dtype)


def special_values(dtype: torch.dtype) -> torch.Tensor:
    """Return infinities, NaN of many payloads, signed zeros, subnormals and the edges between them."""
    form = FLOAT_FORMATS[dtype]
    top, one = (1 << form.exponent_bits) - 1, 1 << form.mantissa_bits
    payloads = [0, 1, 2, one >> 1, (one >> 1) + 1, one - 2, one - 1]
    magnitudes = [e * one + p for e in (0, 1, top - 1, top) for p in payloads]
    patterns = [sign << (form.word_bits - 1) | magnitude for sign in (0, 1) for magnitude in magnitudes]
    octets = b"".join(pattern.to_bytes(form.word_bytes, "little") for pattern in patterns)
    return torch.frombuffer(bytearray(octets), dtype=torch.uint8).view(dtype)


@every_codec
@every_dtype
def test_every_pattern(name, dtype):
    patterns = conformance.every_pattern(dtype)
    encode_alike(name, patterns, "every pattern")
    backwards = words(patterns).flip(0).view(dtype)
    encode_alike(name, backwards, "every pattern, backwards", **SMALLEST[name])


@every_codec
@every_dtype
def test_special_values(name, dtype):
    special = special_values(dtype)
    encode_alike(name, special, "special values")
    encode_alike(name, words(special).repeat(40)[:2111].view(dtype), "many special values", **SMALLEST[name])
    # Specials among ordinary values become escapes.
    mixed = torch.linspace(1.0, 1.9, 53 * special.numel()).to(dtype)
    words(mixed)[::53] = words(special)
    encode_alike(name, mixed, "specials among ordinary values", **SMALLEST[name])


@every_codec
@every_dtype
@pytest.mark.parametrize("numel", [1, 7, 63, 1023, 1024, 1025, 1823])
def test_sizes_with_small_tiles(name, dtype, numel):
    for what, values in conformance.distributions(numel, dtype):
        encode_alike(name, values, what, **SMALLEST[name])


@every_codec
@every_dtype
def test_sizes_with_default_tiles(name, dtype):
    tile = codecs.get(name).geometry(1, dtype).tile_elems
    assert tile == (DEFAULT_TILE_BYTES // dtype.itemsize if name == "window" else 1 << 16)
    for numel in (1, 7, 63, 1823, tile - 1, tile, tile + 1):
        values = dict(conformance.distributions(numel, dtype))
        for what in ("normal", "half zero, wide range") if numel == tile + 1 else ("normal",):
            encode_alike(name, values[what], what)


@every_dtype
def test_streams(dtype):
    values = dict(conformance.distributions(5000, dtype))
    for tile_elems, stream_elems in ((2048, 1024), (2048, 2048), (4096, 1024), (8192, 2048)):
        for what in ("normal", "one outlier"):
            encode_alike("rans", values[what], what, tile_elems=tile_elems, stream_elems=stream_elems)


@every_dtype
def test_table_from_a_sample(dtype):
    # Symbols that only elements outside the sample have become escapes of the table.
    index = torch.arange(1 << 14)
    values = torch.linspace(1.0, 1.9, len(index))
    values[(index // 128 % 8 == 1) & (index % 50 == 0)] = 2.0**-6
    body = encode_alike("rans", values.to(dtype), "symbols outside the sample")
    entry = body[tiled.HEADER_BYTES : tiled.HEADER_BYTES + tiled.ENTRY.itemsize].numpy().view(tiled.ENTRY)[0]
    assert entry["width"] == tiled.STORED or entry["num_escapes"] > 0


@every_codec
@every_dtype
@pytest.mark.slow
def test_one_mi_and_3(name, dtype):
    generator = torch.Generator().manual_seed(5)
    values = torch.randn(ONE_MI_AND_3, generator=generator)
    # Stretches of other kinds, so that tiles of every kind occur.
    values[200_000:400_000] = 0
    values[400_000:500_000] = -1.5
    values[500_000:700_000] *= 10 ** (4 * torch.randn(200_000, generator=generator))
    values = values.to(dtype)
    words(values)[-100_000:] = words(conformance.random_bits(100_000, dtype, generator))
    encode_alike(name, values, "stretches of all kinds")


@pytest.mark.parametrize("kind", IMPLEMENTATIONS)
@every_codec
@every_dtype
def test_size_0(name, dtype, kind):
    empty = torch.empty((3, 0, 2), dtype=dtype)
    frame = wirezip.compress(empty, codecs.get(name, implementation=kind))
    assert wirezip.inspect(frame).codec == "raw"
    assert frame.tolist() == wirezip.compress(empty, "raw").tolist()
    back = wirezip.decompress(frame)
    assert (back.shape, back.dtype) == (empty.shape, dtype)


def entries_of(body: torch.Tensor, num_tiles: int) -> np.ndarray:
    """Return the directory of a body."""
    return np.frombuffer(body.numpy().tobytes(), tiled.ENTRY, num_tiles, tiled.HEADER_BYTES)


def used_parts(body: torch.Tensor, lengths: np.ndarray, num_tiles: int) -> list[bytes]:
    """Return the record of each tile, which have these lengths."""
    section = body.numpy().tobytes()[tiled.HEADER_BYTES + num_tiles * tiled.ENTRY.itemsize :]
    offsets = entries_of(body, num_tiles)["offset"].astype(np.int64)
    return [section[offset : offset + length] for offset, length in zip(offsets, lengths, strict=True)]


def packed_lengths(body: torch.Tensor, num_tiles: int) -> np.ndarray:
    """Return the bytes of each tile's record in a packed body, from where the next begins."""
    section_bytes = int.from_bytes(body[16:24].numpy().tobytes(), "little")
    return np.diff(np.append(entries_of(body, num_tiles)["offset"].astype(np.int64), section_bytes))


@every_codec
@every_dtype
@pytest.mark.parametrize("numel", [1, 1823, 4097])
def test_slotted_tiles_equal_packed_tiles(name, dtype, numel):
    num_tiles = -(-numel // 1024)
    for what, values in conformance.distributions(numel, dtype):
        lengths, parts = None, []
        for placement in tiled.PLACEMENTS:
            for kind in IMPLEMENTATIONS:
                codec = codecs.get(name, implementation=kind, placement=placement, **SMALLEST[name])
                body = codec.encode(values)
                lengths = packed_lengths(body, num_tiles) if lengths is None else lengths
                parts.append(used_parts(body, lengths, num_tiles))
                for other in IMPLEMENTATIONS:
                    decoder = codecs.get(name, implementation=other)
                    decoded = conformance.decode_guarded(decoder, body, numel, dtype)
                    assert torch.equal(conformance.octets(decoded), conformance.octets(values)), (what, kind, other)
        assert lengths.min() >= 0
        assert all(part == parts[0] for part in parts[1:]), f"{name} {dtype} {numel}, {what}"


@st.composite
def tensors(draw):
    """Draw a tensor: stretches that each are constant, of few words, of one range, or of any bits."""
    dtype = draw(st.sampled_from(list(FLOAT_FORMATS)))
    form = FLOAT_FORMATS[dtype]
    word = st.integers(0, (1 << form.word_bits) - 1)
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        numel = draw(st.one_of(st.integers(1, 40), st.integers(1, 1500), st.sampled_from([1023, 1024, 1025])))
        pick = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        kind = draw(st.sampled_from(["constant", "few words", "range", "any bits"]))
        if kind == "any bits":
            part = pick.integers(0, 256, numel * form.word_bytes, np.uint8).view(f"u{form.word_bytes}")
        elif kind == "range":
            low, span = draw(word), 1 << draw(st.integers(0, form.word_bits - 1))
            part = (pick.integers(0, span, numel, np.uint64) + np.uint64(low)).astype(f"u{form.word_bytes}")
        else:
            alphabet = draw(st.lists(word, min_size=1, max_size=1 if kind == "constant" else 12))
            part = pick.choice(np.array(alphabet, f"u{form.word_bytes}"), numel)
        parts.append(part)
    return torch.from_numpy(np.concatenate(parts).view(np.uint8)).view(dtype)


@st.composite
def options(draw):
    """Draw a codec with legal options."""
    name = draw(st.sampled_from(CODECS))
    log2_tile = draw(st.integers(10, 13))
    chosen = {"tile_elems": 1 << log2_tile, "placement": draw(st.sampled_from(tiled.PLACEMENTS))}
    if name == "rans":
        chosen["stream_elems"] = 1 << draw(st.integers(10, log2_tile))
    return name, chosen


@hypothesis.settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=250,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(values=tensors(), codec=options())
def test_any_tensor_with_any_options(values, codec):
    name, chosen = codec
    if chosen["placement"] == "packed":
        encode_alike(name, values, "drawn", **chosen)
        return
    num_tiles = -(-values.numel() // chosen["tile_elems"])
    packed = {**chosen, "placement": "packed"}
    lengths = packed_lengths(codecs.get(name, implementation="reference", **packed).encode(values), num_tiles)
    bodies = [codecs.get(name, implementation=kind, **chosen).encode(values) for kind in IMPLEMENTATIONS]
    first, second = (used_parts(body, lengths, num_tiles) for body in bodies)
    assert first == second
    for body, kind in zip(bodies, reversed(IMPLEMENTATIONS), strict=True):
        decoder = codecs.get(name, implementation=kind)
        decoded = conformance.decode_guarded(decoder, body, values.numel(), values.dtype)
        assert torch.equal(conformance.octets(decoded), conformance.octets(values))
