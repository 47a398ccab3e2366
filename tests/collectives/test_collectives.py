"""`all_gather` and `all_reduce`: what they compute, over threads and gloo."""

import pytest
import torch
import torch.distributed as dist

from wirezip.codecs import names, unavailable_reason
from wirezip.codecs.general.codec import Zstd
from wirezip.collectives import all_gather, all_reduce, reduction
from wirezip.collectives.reference import all_gather_reference, all_reduce_reference
from wirezip.comm.paced import PacedCommunicator
from wirezip.comm.processes import run_forked
from wirezip.comm.threads import run_ranks
from wirezip.errors import InputError, UnknownCodecError, UnsupportedDtypeError
from wirezip.floats import FLOAT_FORMATS, WIRE_IDS
from wirezip.transfer.message import HEADER_BYTES


@pytest.fixture(autouse=True)
def timeout(monkeypatch):
    # A rank may have to wait while its peer compiles a codec for the first time.
    monkeypatch.setenv("WIREZIP_TIMEOUT_S", "240")


@pytest.fixture(params=names())
def codec(request):
    if reason := unavailable_reason(request.param):
        pytest.skip(reason)
    return request.param


def same_bits(one, other):
    octets = [tensor.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8) for tensor in (one, other)]
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(*octets)


def random_bits(numel, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    top = 2 if dtype == torch.bool else 256
    return torch.randint(0, top, (numel * dtype.itemsize,), dtype=torch.uint8, generator=generator).view(dtype)


def numbers(numel, dtype, seed=0):
    values = torch.randn(numel, generator=torch.Generator().manual_seed(seed)) * 3
    return values.abs().mul(30).to(torch.uint8).to(dtype) if not dtype.is_floating_point else values.to(dtype)


def gathered(launch, inputs, outputs=None, **options):
    """All-gather; return per rank its outputs, its record, and its input afterwards."""

    def run(comm):
        tensor = inputs[comm.rank]
        into = [torch.zeros_like(tensor) for _ in inputs] if outputs is None else outputs[comm.rank]
        return into, all_gather(comm, into, tensor, **options), tensor

    return launch(len(inputs), run)


def reduced(launch, inputs, **options):
    """All-reduce copies of the inputs; return per rank the result and the record."""

    def run(comm):
        tensor = inputs[comm.rank].clone()
        return tensor, all_reduce(comm, tensor, **options)

    return launch(len(inputs), run)


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
@pytest.mark.parametrize("numel", [0, 1, 7, 1823])
def test_all_gather(codec, world_size, numel):
    inputs = [numbers(numel, torch.bfloat16, seed) for seed in range(world_size)]
    before = all_gather_reference(inputs)
    for outputs, record, tensor in gathered(run_ranks, inputs, codec=codec):
        assert all(same_bits(*pair) for pair in zip(outputs, before, strict=True))
        assert any(tensor is entry for entry in inputs)
        assert record.logical_bytes == 2 * numel
        assert record.num_messages == world_size - 1
        assert record.wire_bytes <= (world_size - 1) * (HEADER_BYTES + 2 * numel)
    assert all(same_bits(*pair) for pair in zip(inputs, before, strict=True))


@pytest.mark.parametrize("dtype", WIRE_IDS, ids=str)
def test_all_gather_every_dtype_on_any_bits(dtype):
    inputs = [random_bits(33, dtype, seed) for seed in range(3)]
    for outputs, _, _ in gathered(run_ranks, inputs, codec="zstd"):
        assert all(same_bits(*pair) for pair in zip(outputs, inputs, strict=True))


def test_all_gather_writes_strided_outputs_through():
    inputs = [numbers(12, torch.float32, seed).view(3, 4).t() for seed in range(2)]
    bases = [torch.full((2, 8, 3), 5.0) for _ in range(2)]
    outputs = [[base[0, ::2], base[1, 1::2]] for base in bases]
    gathered(run_ranks, inputs, outputs, codec="zstd")
    for base in bases:
        assert torch.equal(base[0, ::2], inputs[0])
        assert torch.equal(base[1, 1::2], inputs[1])
        assert bool((base[0, 1::2] == 5).all())
        assert bool((base[1, ::2] == 5).all())


def test_all_gather_into_the_tensor_that_holds_the_input():
    def run(comm):
        whole = torch.zeros(3, 1000)
        whole[comm.rank] = comm.rank + 1
        all_gather(comm, list(whole), whole[comm.rank], codec="raw")
        return whole[:, 999].tolist()

    assert run_ranks(3, run) == [[1.0, 2.0, 3.0]] * 3


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
@pytest.mark.parametrize("numel", [0, 1, 7, 1823])
def test_all_reduce(codec, world_size, numel):
    inputs = [numbers(numel, torch.bfloat16, seed) for seed in range(world_size)]
    expected = all_reduce_reference(inputs)
    for result, record in reduced(run_ranks, inputs, codec=codec):
        assert same_bits(result, expected)
        assert record.logical_bytes == 2 * numel
        assert record.num_messages == 2 * (world_size - 1)


@pytest.mark.parametrize("dtype", FLOAT_FORMATS, ids=str)
@pytest.mark.parametrize("op", reduction.OPS)
@pytest.mark.parametrize("world_size", [2, 3])
def test_all_reduce_every_float_and_operation(dtype, op, world_size):
    inputs = [numbers(1001, dtype, seed) for seed in range(world_size)]
    expected = all_reduce_reference(inputs, op)
    for result, _ in reduced(run_ranks, inputs, op=op, codec="zstd"):
        assert same_bits(result, expected)


@pytest.mark.parametrize(
    "dtype", [dtype for dtype in WIRE_IDS if not dtype.is_floating_point and not dtype.is_complex], ids=str
)
@pytest.mark.parametrize("op", ["sum", "product", "min", "max"])
def test_all_reduce_every_integer_is_exact(dtype, op):
    inputs = [random_bits(1001, dtype, seed) for seed in range(3)]
    expected = all_reduce_reference(inputs, op)
    for result, record in reduced(run_ranks, inputs, op=op, codec="pcodec"):
        assert same_bits(result, expected)
        assert record.codec == "raw"
        assert record.num_raw == record.num_messages == 4


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_all_reduce_complex(dtype):
    inputs = [torch.randn(9, dtype=dtype) for _ in range(3)]
    for result, _ in reduced(run_ranks, inputs, op="avg"):
        assert same_bits(result, all_reduce_reference(inputs, "avg"))


def test_all_reduce_of_any_bits_is_the_same_on_all_ranks():
    inputs = [random_bits(5000, torch.bfloat16, seed) for seed in range(3)]
    results = [result for result, _ in reduced(run_ranks, inputs, codec="zstd")]
    assert all(same_bits(result, results[0]) for result in results)


LAYOUTS = {
    "step": lambda base: base[::3],
    "transposed": lambda base: base[:60].view(6, 10).t(),
    "columns": lambda base: base[:60].view(6, 10)[:, 2:5],
    "0-dim": lambda base: base[3],
    "one element": lambda base: base[::2][4:5],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["raw", "zstd"])
def test_all_reduce_strided_in_place(layout, name):
    bases = [numbers(70, torch.float32, seed) for seed in range(3)]
    expected = [base.clone() for base in bases]
    total = all_reduce_reference([LAYOUTS[layout](base).clone() for base in bases])
    for base in expected:
        LAYOUTS[layout](base).copy_(total)

    def run(comm):
        all_reduce(comm, LAYOUTS[layout](bases[comm.rank]), codec=name)

    run_ranks(3, run)
    assert all(torch.equal(*pair) for pair in zip(bases, expected, strict=True))


def test_fp16_average_on_four_ranks_stays_finite():
    for result, _ in reduced(run_ranks, [torch.full((5,), 30000.0, dtype=torch.float16)] * 4, op="avg", codec="zstd"):
        assert result.tolist() == [30000.0] * 5


class Coarse(Zstd):
    """A lossy codec: zstd over values rounded to whole numbers."""

    name = "coarse"
    lossless = False

    def encode(self, values, out=None):
        """Encode the rounded values."""
        return super().encode(values.round(), out)


def test_lossy_codec_leaves_the_same_bits_on_all_ranks():
    inputs = [numbers(1000, torch.float32, seed) for seed in range(3)]
    results = [result for result, _ in reduced(run_ranks, inputs, codec=Coarse())]
    assert all(same_bits(result, results[0]) for result in results)
    assert float((results[0] - all_reduce_reference(inputs)).abs().max()) <= 0.5 * 3


def test_records_count_what_this_rank_sent():
    # Rank 0's tensor shrinks, rank 1's does not; both parts of the sum do not.
    inputs = [torch.zeros(4096), random_bits(4096, torch.int32, 1).view(torch.float32).nan_to_num()]
    first, second = (record for _, record in reduced(run_ranks, inputs, codec="zstd"))
    assert (first.codec, first.num_messages, first.num_raw) == ("zstd", 2, 1)
    assert (second.codec, second.num_messages, second.num_raw) == ("raw", 2, 2)
    assert second.wire_bytes == 2 * HEADER_BYTES + 2 * 4 * 2048


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("name", ["raw", "zstd"])
def test_over_gloo(world_size, name):
    cases = [(dtype, numel) for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.int16) for numel in (0, 1, 10_001)]
    inputs = [[numbers(numel, dtype, seed) for dtype, numel in cases] for seed in range(world_size)]

    def run(comm):
        results = []
        for tensor in inputs[comm.rank]:
            outputs = [torch.zeros_like(tensor) for _ in range(world_size)]
            all_gather(comm, outputs, tensor, codec=name)
            total = tensor.clone()
            all_reduce(comm, total, codec=name)
            results.append((outputs, total))
        return results

    for results in run_forked(world_size, run):
        for index, (outputs, total) in enumerate(results):
            column = [row[index] for row in inputs]
            assert all(same_bits(*pair) for pair in zip(outputs, column, strict=True))
            assert same_bits(total, all_reduce_reference(column))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_two_ranks_get_the_bits_of_gloos_own_all_reduce(dtype):
    def run(comm):
        ours = numbers(100_003, dtype, comm.rank)
        theirs = ours.clone()
        all_reduce(comm, ours, codec="zstd")
        dist.all_reduce(theirs)
        return same_bits(ours, theirs)

    assert run_forked(2, run) == [True, True]


def test_eight_mebibytes_over_a_paced_link():
    inputs = [numbers(4 << 20, torch.bfloat16, seed) for seed in range(2)]

    def run(comm):
        tensor = inputs[comm.rank].clone()
        all_reduce(PacedCommunicator(comm, 2.0), tensor, codec="zstd")
        return same_bits(tensor, all_reduce_reference(inputs))

    assert run_forked(2, run) == [True, True]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"algorithm": "magic"}, InputError, "known: two_shot"),
        ({"op": "xor"}, InputError, "known: sum"),
        ({"codec": "morse"}, UnknownCodecError, "known: raw"),
    ],
)
def test_all_reduce_refuses_bad_options(options, error, text):
    with pytest.raises(error, match=text):
        reduced(run_ranks, [torch.zeros(3)] * 2, **options)


def test_all_reduce_refuses_tensors_it_cannot_write():
    for tensor, error in (
        (torch.zeros(1).expand(4), InputError),
        (torch.zeros(4, device="meta"), InputError),
        (torch.zeros(4).to_sparse(), InputError),
    ):
        with pytest.raises(error, match=r"rank \d: all_reduce"):
            run_ranks(2, lambda comm, tensor=tensor: all_reduce(comm, tensor))


def test_codec_that_does_not_take_the_float_is_refused_before_anything_is_sent():
    inputs = [torch.zeros(4).to(torch.float8_e5m2)] * 2
    for function in (gathered, reduced):
        with pytest.raises(UnsupportedDtypeError, match="pcodec does not take"):
            function(run_ranks, inputs, codec="pcodec")


@pytest.mark.parametrize(
    "outputs",
    [
        [torch.zeros(4)],
        [torch.zeros(4), torch.zeros(5)],
        [torch.zeros(4), torch.zeros(4, dtype=torch.float16)],
        [torch.zeros(4), torch.zeros(1).expand(4)],
    ],
)
def test_all_gather_refuses_outputs_that_do_not_fit(outputs):
    with pytest.raises(InputError, match=r"rank \d: all_gather"):
        gathered(run_ranks, [torch.zeros(4)] * 2, [outputs] * 2)
    with pytest.raises(InputError, match="known: direct"):
        gathered(run_ranks, [torch.zeros(4)] * 2, algorithm="magic")


def test_all_gather_from_the_slot_of_a_peer():
    def gather(comm):
        outputs = list(torch.zeros(2, 50_000))
        outputs[1 - comm.rank][:] = comm.rank + 5.0
        all_gather(comm, outputs, outputs[1 - comm.rank], codec="raw")
        return [output.unique().tolist() for output in outputs]

    assert run_ranks(2, gather) == [[[5.0], [6.0]]] * 2
