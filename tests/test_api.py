"""compress, decompress and inspect on tensors of every dtype and layout."""

import re
from pathlib import Path

import pytest
import torch

import wirezip
from wirezip import codecs
from wirezip.checksum import checksum as checksum_of
from wirezip.codecs import conformance
from wirezip.errors import (
    ChecksumError,
    CorruptFrameError,
    InputError,
    SettingsError,
    UnknownCodecError,
    UnsupportedDtypeError,
)
from wirezip.floats import FLOAT_FORMATS, WIRE_IDS, dtype_name
from wirezip.frame import FrameHeader

FORMAT_PAGE = Path(__file__).parent.parent / "docs" / "format.md"
ALL_DTYPES = sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)}, key=str)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    flat = [t.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8) for t in (a, b)]
    return torch.equal(*flat)


def some_bits(numel: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(numel)
    if dtype == torch.bool:
        return torch.rand(numel, generator=generator) < 0.5
    return conformance.random_bits(numel, dtype, generator)


def test_torch_has_dtypes_of_both_kinds():
    assert set(WIRE_IDS) < set(ALL_DTYPES)


@pytest.mark.filterwarnings("ignore:ComplexHalf", "ignore:torch.quantize")
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=dtype_name)
def test_every_dtype_is_carried_or_refused_by_name(dtype):
    if dtype in WIRE_IDS:
        values = some_bits(500, dtype).view(50, 10)
        for codec in ("auto", "raw"):
            frame = wirezip.compress(values, codec)
            assert same_bits(wirezip.decompress(frame), values)
            assert wirezip.inspect(frame).dtype == dtype
        return
    try:
        values = torch.empty(3, dtype=dtype)
    except RuntimeError:
        pytest.skip(f"torch makes no plain tensors of {dtype}")
    for codec in ("auto", "raw", "window", "zstd"):
        with pytest.raises(UnsupportedDtypeError, match=str(dtype).replace(".", r"\.") + r"\b"):
            wirezip.compress(values, codec)


@pytest.mark.parametrize("dtype", FLOAT_FORMATS, ids=dtype_name)
def test_auto_takes_rans_for_floats(dtype):
    frame = wirezip.compress(torch.ones(4096).to(dtype))
    assert wirezip.inspect(frame).codec == "rans"


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", [d for d in WIRE_IDS if d not in FLOAT_FORMATS], ids=dtype_name)
def test_auto_takes_raw_for_others(dtype):
    frame = wirezip.compress(torch.zeros(4096 * dtype.itemsize, dtype=torch.uint8).view(dtype))
    assert wirezip.inspect(frame).codec == "raw"
    assert frame.numel() == 64 + 4096 * dtype.itemsize


@pytest.mark.parametrize("name", ["window", "rans", "pcodec"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool, torch.complex64], ids=dtype_name)
def test_explicit_codec_is_refused_not_replaced(name, dtype):
    with pytest.raises(UnsupportedDtypeError, match=f"codec {name} does not take {dtype}"):
        wirezip.compress(torch.zeros(100, dtype=dtype), name)


def test_unknown_codec_lists_the_known_ones():
    with pytest.raises(UnknownCodecError, match="unknown codec 'gzip'; known: " + ", ".join(codecs.names())):
        wirezip.compress(torch.zeros(3), "gzip")


@pytest.mark.parametrize("codec", ["auto", "raw", "window", "rans", "zstd"])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: x.t(),
        lambda x: x[::2, 1::3],
        lambda x: x[:, 5],
        lambda x: x[3, 4],
        lambda x: x[3:4, 4:5].expand(6, 7),
        lambda x: x[:0],
        lambda x: x[:, :0].t(),
        lambda x: x.view(8, 5, 10, 2).permute(3, 1, 0, 2),
        lambda x: torch.as_strided(x, (3, 4), (1, 1)),
        lambda x: torch.as_strided(x, (1,), (7,)),
        lambda x: x[2:].requires_grad_(),
        lambda x: torch.nn.Parameter(x),
        lambda x: x.to(torch.float16).conj(),
        lambda x: torch.complex(x, x)[::2].conj(),
        lambda x: torch.complex(x, x + 1).conj(),
        lambda x: torch.complex(x, x).conj().imag,
    ],
)
def test_layouts(codec, make):
    values = make(torch.randn(40, 20, generator=torch.Generator().manual_seed(1)))
    if values.is_complex() and codec in ("window", "rans"):
        pytest.skip(f"{codec} does not take complex tensors")
    before = values.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    frame = wirezip.compress(values, codec)
    back = wirezip.decompress(frame)
    assert same_bits(back, before)
    assert back.is_contiguous()
    assert not back.requires_grad
    assert same_bits(values.detach().resolve_conj().resolve_neg(), before)
    assert frame.untyped_storage().nbytes() == frame.numel()


@pytest.mark.filterwarnings("ignore:Sparse", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.eye(3).to_sparse(), "a torch.sparse_coo one on cpu"),
        (lambda: torch.eye(3).to_sparse_csr(), "a torch.sparse_csr one on cpu"),
        (lambda: torch.empty(3, device="meta"), "a torch.strided one on meta"),
        (lambda: torch.nested.nested_tensor([torch.zeros(3), torch.zeros(2)]), "a nested one on cpu"),
    ],
)
def test_tensors_without_plain_data_are_refused(make, text):
    with pytest.raises(InputError, match=f"expected a dense tensor with data, got {text}"):
        wirezip.compress(make())


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), (1,) * 64, (5, 1, 7)])
def test_shapes(shape):
    values = torch.full(shape, -0.0, dtype=torch.bfloat16)
    frame = wirezip.compress(values)
    assert same_bits(wirezip.decompress(frame), values)
    info = wirezip.inspect(frame)
    assert (info.shape, info.numel, info.original_bytes) == (shape, values.numel(), values.nbytes)
    assert info.encoded_bytes == frame.numel()
    assert info.ratio == (frame.numel() / values.nbytes if values.numel() else float("inf"))


def test_inspect():
    values = torch.zeros(1000, 3)
    info = wirezip.inspect(wirezip.compress(values, "window"))
    assert info == wirezip.FrameInfo(
        codec="window",
        dtype=torch.float32,
        shape=(1000, 3),
        numel=3000,
        version=1,
        original_bytes=12000,
        encoded_bytes=info.encoded_bytes,
        ratio=info.encoded_bytes / 12000,
        checksum=checksum_of(values),
    )
    assert wirezip.inspect(wirezip.compress(values, "window", checksum=False)).checksum is None


def test_codec_objects_and_options():
    values = torch.randn(5000, generator=torch.Generator().manual_seed(2))
    small, large = (wirezip.compress(values, codecs.get("window", tile_elems=1 << k)) for k in (10, 16))
    assert small.numel() != large.numel()
    assert same_bits(wirezip.decompress(small), wirezip.decompress(large))


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("window", {"tile": 1024}, "codec window has no option 'tile'; its options: tile_elems, placement, impl"),
        ("raw", {"level": 1}, "codec raw has no option 'level'; its options: none"),
        ("window", {"tile_elems": 1000}, "tile_elems=1000: expected a power of two from 1024 to 65536"),
        ("window", {"tile_elems": 512}, "tile_elems=512: expected"),
        ("window", {"tile_elems": 1 << 17}, "tile_elems=131072: expected"),
        ("window", {"tile_elems": 1024.0}, "tile_elems=1024.0: expected"),
        ("window", {"tile_elems": "1024"}, "tile_elems='1024': expected"),
        ("rans", {"tile_elems": 0}, "tile_elems=0: expected"),
        ("rans", {"tile_elems": -1024}, "tile_elems=-1024: expected"),
        ("rans", {"stream_elems": 512}, "stream_elems=512: expected a power of two from 1024 to 65536"),
        ("rans", {"tile_elems": 2048, "stream_elems": 4096}, "stream_elems=4096: expected .* from 1024 to 2048"),
        ("rans", {"placement": "loose"}, "placement='loose': expected one of packed, slotted"),
        ("rans", {"implementation": "cuda"}, "implementation='cuda': expected one of auto, reference, cpu, triton"),
    ],
)
def test_options_are_checked(name, options, text):
    with pytest.raises(SettingsError, match=text):
        codecs.get(name, **options)


def test_out():
    values = torch.randn(40, 20)
    frame = wirezip.compress(values)
    out = torch.full((40, 20), float("nan"))
    assert wirezip.decompress(frame, out=out) is out
    assert same_bits(out, values)
    # Part of a larger tensor: nothing around it changes.
    memory = torch.full((42, 20), 7.0)
    wirezip.decompress(frame, out=memory[1:41])
    assert same_bits(memory[1:41], values)
    assert (memory[[0, 41]] == 7.0).all()


def test_out_in_odd_clothes():
    values = torch.randn(40, 20)
    parameter = torch.nn.Parameter(torch.zeros(40, 20))
    assert wirezip.decompress(wirezip.compress(values), out=parameter) is parameter
    assert same_bits(parameter.detach(), values)
    one = torch.as_strided(torch.zeros(30), (1, 1), (7, 5))
    wirezip.decompress(wirezip.compress(values[:1, :1]), out=one)
    assert same_bits(one, values[:1, :1])
    for lazy in (torch.zeros(3, dtype=torch.complex64).conj(), torch._neg_view(torch.zeros(3))):
        with pytest.raises(InputError, match="a lazily conjugated or negated view"):
            wirezip.decompress(wirezip.compress(lazy, "raw"), out=lazy)


def test_out_of_no_elements():
    frame = wirezip.compress(torch.empty(0, 3))
    out = torch.empty(0, 3)
    assert wirezip.decompress(frame, out=out) is out


@pytest.mark.parametrize(
    ("out", "text"),
    [
        (torch.empty(40, 20, dtype=torch.float64), r"holds torch.float32 \(40, 20\); out is torch.float64 \(40, 20\)"),
        (torch.empty(800), r"out is torch.float32 \(800,\)"),
        (torch.empty(20, 40), r"out is torch.float32 \(20, 40\)"),
        (torch.empty(20, 40).t(), r"out is torch.float32 \(40, 20\), not contiguous"),
        (torch.empty(40, 40)[:, ::2], r"out is torch.float32 \(40, 20\), not contiguous"),
    ],
)
def test_out_that_does_not_fit_is_refused(out, text):
    frame = wirezip.compress(torch.randn(40, 20))
    with pytest.raises(InputError, match=text):
        wirezip.decompress(frame, out=out)


def test_changed_data_are_found_by_the_checksum():
    frame = wirezip.compress(torch.randn(1000), "raw")
    frame[-1] ^= 1
    with pytest.raises(ChecksumError, match=r"raw torch.float32 \(1000,\): decoded data have checksum 0x"):
        wirezip.decompress(frame)
    unchecked = wirezip.compress(torch.zeros(1000), "raw", checksum=False)
    unchecked[-1] ^= 1
    assert wirezip.decompress(unchecked)[-1] != 0


def forged(codec: str, dtype: torch.dtype, shape: tuple[int, ...], body: bytes) -> torch.Tensor:
    header = FrameHeader(codec, dtype, shape, len(body)).pack()
    return torch.frombuffer(bytearray(header + body), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (forged("gzip", torch.uint8, (1,), b"x"), "the frame names an unknown codec 'gzip'; known: raw, "),
        (forged("window", torch.int8, (1,), bytes(99)), "holds torch.int8 by codec window, which does not take it"),
        (forged("pcodec", torch.bool, (1,), bytes(99)), "holds torch.bool by codec pcodec, which does not take it"),
        (forged("raw", torch.uint8, (0,), b"x"), "an empty tensor has an empty body, got 1 bytes"),
        (forged("raw", torch.int16, (2,), b"xxxxx"), "a raw body of 4 bytes was expected, got 5"),
        (forged("raw", torch.int16, (2,), b"xxx"), "which take at least 4 bytes; its body has 3"),
        (forged("rans", torch.bfloat16, (70000,), bytes(63)), "at least 64 bytes; its body has 63"),
        (forged("zstd", torch.int16, (9,), b"not zstd"), "codec zstd: a body of None bytes where 18 are expected"),
        (forged("blosc", torch.int16, (9,), b"not blosc"), "codec blosc: a body of None bytes where 18 are expected"),
    ],
)
def test_frames_that_contradict_themselves(frame, text):
    with pytest.raises(CorruptFrameError, match=re.escape(text)):
        wirezip.decompress(frame)


def test_vector_of_the_format_page():
    section = FORMAT_PAGE.read_text().split("## 7. Test vector")[1]
    expected = bytes.fromhex("".join(re.findall(r"^ {4}([0-9A-F ]+)$", section, re.MULTILINE)))
    assert len(expected) == 72
    values = torch.tensor([1.0, -2.0, 0.5, 1.0], dtype=torch.bfloat16)
    assert wirezip.compress(values, "window").numpy().tobytes() == expected
    frame = torch.frombuffer(bytearray(expected), dtype=torch.uint8)
    assert same_bits(wirezip.decompress(frame), values)
