"""The Triton kernels equal the reference byte for byte; without a GPU they run in the interpreter."""

import time

import pytest
import torch
import triton
import triton.language as tl
from tile_data import Guarded, before_forbidden_page, mixed

from wirezip import codecs
from wirezip.codecs.tiles import kernels_place, launch
from wirezip.errors import CodecUnavailableError, CorruptFrameError
from wirezip.floats import FLOAT_FORMATS

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = {"window": {"tile_elems": 1024}, "rans": {"tile_elems": 2048, "stream_elems": 1024}}
# The layouts of these two are those of their namesakes, so a few sizes are enough.
TWINS = (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
LAYOUTS = [dtype for dtype in FLOAT_FORMATS if dtype not in TWINS]
SHIPPED = (torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn)


def octets(tensor):
    return tensor.cpu().view(torch.uint8)


def assert_equal(values, name, **options):
    """Check that both implementations make the same bytes of `values`, and Triton the values of the bytes."""
    reference = codecs.get(name, implementation="reference", **options)
    compiled = codecs.get(name, implementation="triton", **options)
    expected = reference.encode(values)
    body = compiled.encode(values.to(DEVICE))
    assert body.numel() == expected.numel()
    wrong = (body.cpu() != expected).nonzero()
    assert wrong.numel() == 0, f"{len(wrong)} bytes differ, the first at {int(wrong[0])}"
    out = torch.empty_like(values, device=DEVICE)
    out.view(torch.uint8).fill_(0xA5)
    compiled.decode(expected.to(DEVICE), out)
    wrong = (octets(out) != octets(values)).nonzero()
    assert wrong.numel() == 0, f"{len(wrong)} decoded bytes differ, the first at {int(wrong[0])}"


@pytest.mark.parametrize("dtype", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", SMALL)
def test_every_kind_of_tile(name, dtype):
    tile_elems = SMALL[name]["tile_elems"]
    assert_equal(mixed(8 * tile_elems + 130, tile_elems, dtype), name, **SMALL[name])


@pytest.mark.parametrize("dtype", FLOAT_FORMATS, ids=str)
@pytest.mark.parametrize("name", SMALL)
def test_sizes(name, dtype):
    tile_elems = SMALL[name]["tile_elems"]
    sizes = (1, 7, 63, 1823, tile_elems - 1, tile_elems, tile_elems + 1)
    for numel in (63, tile_elems + 1) if dtype in TWINS else sizes:
        assert_equal(mixed(numel, 1 << 16, dtype), name, **SMALL[name])


@pytest.mark.parametrize("dtype", SHIPPED, ids=str)
def test_window_at_its_default_tile(dtype):
    assert_equal(mixed(2 * 8192 + 5, 8192, dtype, kinds=("normal", "sparse")), "window")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e5m2], ids=str)
def test_window_of_ties_and_of_a_misleading_sample(dtype):
    # Tiles of two equally common exponents; of five; and one whose sample, columns 0 to 15, looks incompressible.
    exponents = torch.arange(3 * 1024) % 2 * 9
    exponents[1024:2048] = torch.arange(1024) % 5 * 2
    column = torch.arange(1024) % 128
    noise = torch.randint(-14, 15, (1024,), generator=torch.Generator().manual_seed(3))
    exponents[2048:] = noise
    values = torch.ldexp(torch.ones(3 * 1024), exponents)
    values[2048:] *= column < 16
    assert_equal(values.to(dtype), "window", **SMALL["window"])


@pytest.mark.parametrize("dtype", SHIPPED, ids=str)
def test_rans_with_a_table_from_a_sample(dtype):
    # The outliers are in groups that the sample leaves out, so they are escapes.
    values = mixed(16384 + 900, 16384, dtype, kinds=("normal", "half_zero"))
    values[200:16000:700] = 0.0
    values.view(torch.uint8)[300 * dtype.itemsize : 330 * dtype.itemsize] = 0xFE
    assert_equal(values, "rans", tile_elems=16384, stream_elems=1024)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_slotted(name, dtype):
    tile_elems = SMALL[name]["tile_elems"]
    values = mixed(3 * tile_elems + 40, tile_elems, dtype, kinds=("normal", "zeros", "bits"))
    assert_equal(values, name, placement="slotted", **SMALL[name])


@pytest.mark.parametrize("name", SMALL)
def test_buffers_off_the_alignment(name):
    values = mixed(1823, 512, torch.float16)
    codec = codecs.get(name, implementation="triton", **SMALL[name])
    buffer = torch.empty(codec.max_encoded_bytes(1823, torch.float16) + 16, dtype=torch.uint8, device=DEVICE)
    body = codec.encode(values.to(DEVICE), buffer[3:])
    assert body.data_ptr() == buffer.data_ptr() + 3
    assert torch.equal(body.cpu(), codecs.get(name, implementation="reference", **SMALL[name]).encode(values))
    out = torch.empty(1824, dtype=torch.float16, device=DEVICE)[1:]
    codec.decode(body, out)
    assert torch.equal(octets(out), octets(values))


def test_reports_speed(capsys):
    values = torch.randn(4 * 8192).to(torch.bfloat16).to(DEVICE)
    codec = codecs.get("window", implementation="triton")
    started = time.perf_counter()
    body = codec.encode(values)
    encoded = time.perf_counter()
    codec.decode(body, torch.empty_like(values))
    decoded = time.perf_counter()
    encode_rate = values.numel() / (encoded - started) / 1e6
    decode_rate = values.numel() / (decoded - encoded) / 1e6
    with capsys.disabled():
        print(f"\nwindow kernels on {DEVICE}: encode {encode_rate:.3f}, decode {decode_rate:.3f} million elements/s")


@triton.jit
def place_kernel(state_ptr, found_ptr, tile, num_bytes, G: tl.constexpr):
    number = tl.load(state_ptr) * 0 + tile
    tl.store(found_ptr, kernels_place.place_tile(state_ptr, number, number * 0 + num_bytes, G))


@pytest.mark.parametrize("nearest_prefix", [0, 7, 60, 68, 69])
def test_look_back_adds_up_tiles_that_do_not_know_their_place(nearest_prefix):
    tiles = codecs.get("window", tile_elems=1024).geometry(1 << 20, torch.bfloat16)
    tile = 70
    sizes = torch.arange(tile, dtype=torch.int64) * 16
    sums = sizes.cumsum(0)
    state = torch.zeros(tile + 1, dtype=torch.int64)
    state[:tile] = sizes * 4 + kernels_place.OWN.value
    state[nearest_prefix] = sums[nearest_prefix] * 4 + kernels_place.PREFIX.value
    state, found = state.to(DEVICE), torch.zeros(1, dtype=torch.int64, device=DEVICE)
    geometry = launch.geometry_of(tiles, 32, launch.Variant())
    place_kernel[(1,)](state, found, tile, 160, G=geometry)
    assert found.item() == sums[-1].item()
    assert state[-1].item() == (sums[-1].item() + 160) * 4 + 2


def mutations(body, num_tiles, generator):
    """Yield copies of a body, each wrong in another way."""
    extremes = (0xFF, 0x80, 0x01, 0x00)
    for place in range(32, 32 + 16 * num_tiles, 2):
        changed = body.clone()
        changed[place] = extremes[place // 2 % 4]
        yield changed
    for _ in range(16):
        changed = body.clone()
        places = torch.randint(32, body.numel(), (1 + int(torch.randint(0, 4, (), generator=generator)),))
        changed[places] = torch.randint(0, 256, places.shape, generator=generator, dtype=torch.uint8)
        yield changed
    for place in range(32 + 16 * num_tiles, min(body.numel(), 300), 21):
        changed = body.clone()
        changed[place : place + 4] = 0xFF
        yield changed


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_corrupt_bodies_touch_nothing_else(name, dtype):
    numel = 150 if name == "window" else 600
    values = mixed(numel, 1 << 16, dtype, kinds=("sparse" if name == "window" else "half_zero",))
    codec = codecs.get(name, implementation="triton", **SMALL[name])
    body = codecs.get(name, implementation="reference", **SMALL[name]).encode(values)
    assert 0 < body[32 + 12] <= 12, "the tile must be coded"
    numel_bytes = values.numel() * dtype.itemsize
    workspace = Guarded(codec.workspace_bytes(values.numel(), dtype), DEVICE)
    refused = 0
    for changed in mutations(body, 1, torch.Generator().manual_seed(1)):
        source = before_forbidden_page(changed) if DEVICE == "cpu" else changed.to(DEVICE)
        out = Guarded(numel_bytes, DEVICE)
        try:
            codec.decode_async(source, out.inner.view(dtype), workspace=workspace.inner).wait()
        except CorruptFrameError:
            refused += 1
        assert out.intact()
        assert torch.equal(source.cpu(), changed)
        assert workspace.intact()
    assert refused > 5


@pytest.mark.skipif(DEVICE == "cuda", reason="the kernels are compiled here")
def test_tensor_elsewhere_is_refused():
    codec = codecs.get("window", implementation="triton")
    with pytest.raises(CodecUnavailableError, match="cannot take a tensor on meta"):
        codec.encode(torch.empty(8192, dtype=torch.bfloat16, device="meta"))
