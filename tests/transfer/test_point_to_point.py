"""`send` and `recv`: what arrives, how it is recorded, and what is refused."""

import threading
import time

import pytest
import torch

from wirezip.codecs import names, unavailable_reason
from wirezip.comm.faulty import FaultyCommunicator
from wirezip.comm.paced import PacedCommunicator
from wirezip.comm.processes import run_forked
from wirezip.comm.threads import run_ranks
from wirezip.errors import (
    CommTimeoutError,
    InputError,
    MismatchError,
    UnknownCodecError,
    UnsupportedDtypeError,
)
from wirezip.floats import FLOAT_FORMATS, WIRE_IDS
from wirezip.transfer import STRATEGIES, channel, recv, send
from wirezip.transfer.message import HEADER_BYTES

FLOATS = list(FLOAT_FORMATS)
OTHERS = [dtype for dtype in WIRE_IDS if dtype not in FLOAT_FORMATS]


@pytest.fixture(autouse=True)
def timeout(monkeypatch):
    # A rank may have to wait while its peer compiles a codec for the first time.
    monkeypatch.setenv("WIREZIP_TIMEOUT_S", "240")


def bits_of(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def same_bits(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(bits_of(one), bits_of(other))


def random_bits(numel, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    top = 2 if dtype == torch.bool else 256
    return torch.randint(0, top, (numel * dtype.itemsize,), dtype=torch.uint8, generator=generator).view(dtype)


def smooth(numel, dtype=torch.float32):
    return torch.randn(numel, generator=torch.Generator().manual_seed(1)).to(dtype)


def pass_on(tensor, out=None, launch=run_ranks, **options):
    """Send a tensor from rank 0 to rank 1; return what arrived and both records."""
    out = torch.zeros_like(tensor) if out is None else out

    def both(comm):
        if comm.rank == 0:
            return send(comm, tensor, 1, **options)
        return out, recv(comm, out, 0, **options)

    sent, (got, received) = launch(2, both)
    return got, sent, received


@pytest.fixture(params=names())
def codec(request):
    if reason := unavailable_reason(request.param):
        pytest.skip(reason)
    return request.param


@pytest.mark.parametrize("dtype", WIRE_IDS, ids=str)
@pytest.mark.parametrize("numel", [0, 1, 7, 1823])
def test_every_dtype_and_size_arrives_bit_for_bit(codec, dtype, numel):
    if codec == "pcodec" and dtype in FLOAT_FORMATS and dtype.itemsize == 1:
        pytest.skip("pcodec takes no 8-bit floats")
    if codec == "blosc" and dtype in (torch.float8_e8m0fnu, torch.complex32):
        pytest.skip("NumPy has no such type for blosc")
    for tensor in (random_bits(numel, dtype), torch.zeros(numel, dtype=torch.uint8).to(dtype)):
        got, sent, received = pass_on(tensor, codec=codec)
        assert same_bits(got, tensor)
        assert sent.codec == received.codec
        assert sent.wire_bytes == received.wire_bytes <= HEADER_BYTES + tensor.nbytes
        assert (sent.peer, received.peer) == (1, 0)
        assert sent.logical_bytes == received.logical_bytes == tensor.nbytes


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_is_recorded(strategy):
    _, sent, received = pass_on(smooth(100), strategy=strategy)
    assert sent.strategy == received.strategy == strategy


@pytest.mark.parametrize("codec", ["auto", "raw"])
def test_under_strategy_raw_auto_means_raw(codec):
    got, sent, received = pass_on(torch.zeros(5000), strategy="raw", codec=codec)
    assert not got.any()
    assert sent.codec == received.codec == "raw"
    assert sent.wire_bytes == received.wire_bytes == HEADER_BYTES + 20_000


@pytest.mark.parametrize("operation", [send, recv])
def test_strategy_raw_refuses_other_codecs_to_oneself_too(operation):
    with pytest.raises(InputError, match="no use for codec zstd"):
        run_ranks(1, lambda comm: operation(comm, torch.zeros(3), 0, codec="zstd", strategy="raw"))


def test_record_says_what_travelled():
    tensor = torch.zeros(10_000)
    _, sent, received = pass_on(tensor, codec="zstd")
    assert sent.codec == received.codec == "zstd"
    assert HEADER_BYTES < sent.wire_bytes == received.wire_bytes < 1000


def test_data_that_do_not_shrink_travel_raw():
    _, sent, received = pass_on(random_bits(4096, torch.float32), codec="zstd")
    assert sent.codec == received.codec == "raw"
    assert sent.wire_bytes == HEADER_BYTES + 4 * 4096


def test_codec_for_floats_sends_integers_raw():
    tensor = torch.arange(1000)
    got, sent, _ = pass_on(tensor, codec="pcodec")
    assert torch.equal(got, tensor)
    assert sent.codec == "raw"


LAYOUTS = {
    "step": lambda base: base[::3],
    "columns": lambda base: base[:60].view(6, 10)[:, 2:5],
    "transposed": lambda base: base[:60].view(6, 10).t(),
    "offset": lambda base: base[5:20],
    "0-dim": lambda base: base[3],
    "one element": lambda base: base[::2][4:5],
    "no elements": lambda base: base[:0].view(0, 4),
    "diagonal": lambda base: base[:48].view(3, 4, 4).diagonal(dim1=0, dim2=2),
    "windows side by side": lambda base: base.unfold(0, 3, 3),
    "4-d permuted": lambda base: base[:48].view(2, 3, 2, 4).permute(0, 3, 1, 2),
}


@pytest.mark.parametrize("source", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int16], ids=str)
@pytest.mark.parametrize("name", ["raw", "zstd"])
def test_any_layout_is_sent_and_written_through(source, dtype, name):
    tensor = LAYOUTS[source](smooth(70).mul(100).to(dtype))
    base = torch.full((70,), 55, dtype=dtype)
    expected = base.clone()
    LAYOUTS[source](expected).copy_(tensor)
    before = tensor.clone()
    pass_on(tensor, LAYOUTS[source](base), codec=name)
    assert torch.equal(base, expected)
    assert torch.equal(tensor, before)


def test_layouts_of_the_two_sides_are_independent():
    tensor = smooth(12).view(3, 4).t()
    got, _, _ = pass_on(tensor, torch.zeros(12), codec="zstd")
    assert torch.equal(got, tensor.reshape(-1))


def test_conjugate_and_negative_views_arrive_as_their_values():
    tensor = torch.randn(9, dtype=torch.complex64)
    got, _, _ = pass_on(tensor.conj(), torch.zeros(9, dtype=torch.complex64))
    assert torch.equal(got, tensor.conj().resolve_conj())
    got, _, _ = pass_on(tensor, torch.zeros(9, dtype=torch.complex64).conj())
    assert torch.equal(got.resolve_conj(), tensor)


def test_tensors_of_autograd_travel():
    tensor = smooth(8).requires_grad_()
    got, _, _ = pass_on(tensor, torch.zeros(8, requires_grad=True))
    assert torch.equal(got.detach(), tensor.detach())


def test_expanded_tensor_is_sent_but_not_received_into():
    tensor = torch.tensor([3.0]).expand(5)
    got, _, _ = pass_on(tensor, torch.zeros(5))
    assert got.tolist() == [3.0] * 5
    with pytest.raises(InputError, match=r"rank 0.*expanded"):
        run_ranks(2, lambda comm: comm.rank or recv(comm, tensor, 1))


WINDOWS = {
    "unfold": lambda base: base.unfold(0, 4, 2),
    "as_strided": lambda base: base.as_strided((3, 3), (1, 2)),
    "one step back": lambda base: base.as_strided((4, 5), (4, 1)),
}


@pytest.mark.parametrize("kind", WINDOWS)
def test_overlapping_windows_are_sent_but_not_received_into(kind):
    tensor = WINDOWS[kind](smooth(60))
    got, _, _ = pass_on(tensor, torch.zeros(tensor.shape))
    assert torch.equal(got, tensor)
    with pytest.raises(InputError, match=r"rank 0.*share memory.*strides"):
        run_ranks(2, lambda comm: comm.rank or recv(comm, tensor, 1))


@pytest.mark.parametrize("launch", [run_ranks, run_forked])
@pytest.mark.parametrize("name", ["raw", "zstd"])
def test_big_messages_go_in_pieces(launch, name, monkeypatch):
    monkeypatch.setattr(channel, "PIECE_BYTES", 1 << 20)
    tensor = smooth(2 << 20).bfloat16().float()
    got, sent, _ = pass_on(tensor, launch=launch, codec=name)
    assert torch.equal(got, tensor)
    assert sent.wire_bytes > 2 << 20


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e5m2, torch.uint16, torch.bool], ids=str)
@pytest.mark.parametrize("name", ["raw", "zstd"])
def test_over_gloo(dtype, name):
    for numel in (0, 1, 4097):
        tensor = random_bits(numel, dtype)
        got, _, _ = pass_on(tensor, launch=run_forked, codec=name)
        assert same_bits(got, tensor)


def test_over_a_paced_link():
    tensor = smooth(300_000)
    both = lambda comm: PacedCommunicator(comm, 1.0)  # noqa: E731
    got, _, _ = pass_on(tensor, launch=lambda size, run: run_ranks(size, lambda comm: run(both(comm))), codec="zstd")
    assert torch.equal(got, tensor)


def test_tags_may_be_received_in_another_order():
    def both(comm):
        if comm.rank == 0:
            threads = [
                threading.Thread(target=send, args=(comm, torch.full((9,), float(tag)), 1), kwargs={"tag": tag})
                for tag in range(6)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return None
        got = {}
        for tag in (5, 0, 3, 1, 4, 2):
            out = torch.zeros(9)
            recv(comm, out, 0, tag=tag)
            got[tag] = out[8].item()
        return got

    for launch in (run_ranks, run_forked):
        assert launch(2, both)[1] == {tag: float(tag) for tag in range(6)}


def test_threads_that_share_a_tag_do_not_mix_messages():
    def both(comm):
        outs = [torch.zeros(50_000) for _ in range(8)]

        def slowly(index, octets):
            # Gives another thread the chance to put its header between this header and its body.
            time.sleep(0.002)
            return octets

        if comm.rank == 0:
            # Let the receivers all be there first.
            time.sleep(0.1)
            comm = FaultyCommunicator(comm, slowly)

        def talk(index):
            if comm.rank == 0:
                send(comm, torch.full((50_000,), float(index)), 1, codec="zstd")
            else:
                recv(comm, outs[index], 0, codec="zstd")

        threads = [threading.Thread(target=talk, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(bool((out == out[0]).all()) for out in outs)
        return sorted(out[0].item() for out in outs)

    assert run_ranks(2, both, timeout_s=20)[1] == [float(index) for index in range(8)]


def stress(comm, seconds, num_bytes):
    """Send and receive random messages, each direction in its own thread; return how many there were."""
    until = time.monotonic() + seconds
    counts, errors = {}, []

    def plan(sender):
        generator = torch.Generator().manual_seed(sender)
        while True:
            numel, dtype, name, tag = torch.randint(0, 1 << 30, (4,), generator=generator).tolist()
            tensor = smooth(numel % (num_bytes // 4)).to([torch.bfloat16, torch.float16, torch.float32][dtype % 3])
            yield tensor, {"codec": ("raw", "zstd", "blosc")[name % 3], "tag": tag % 4}

    def talk(sender, last):
        try:
            for index, (tensor, options) in enumerate(plan(sender)):
                ending = torch.tensor([time.monotonic() > until])
                if comm.rank == sender:
                    send(comm, ending, 1 - sender)
                    send(comm, tensor, 1 - sender, **options)
                else:
                    out = torch.zeros_like(tensor)
                    recv(comm, ending, sender)
                    recv(comm, out, sender, **options)
                    assert same_bits(out, tensor)
                if ending:
                    counts[sender] = index
                    return
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=talk, args=(sender, until)) for sender in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return counts


@pytest.mark.parametrize("launch", [run_ranks, run_forked])
def test_stress_in_both_directions(launch):
    torch.set_num_threads(1)
    one, other = launch(2, lambda comm: stress(comm, 4.0, 1 << 19))
    assert one == other
    assert min(one.values()) > 10


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("launch", [run_ranks, run_forked])
def test_sends_to_oneself_are_local_copies(launch, world_size):
    def oneself(comm):
        tensor, out = smooth(10), torch.zeros(2, 10)
        first = send(comm, tensor, comm.rank, codec="zstd", tag=4)
        tensor.zero_()
        send(comm, tensor, comm.rank, codec="zstd", tag=4)
        second = recv(comm, out[0], comm.rank, codec="zstd", tag=4)
        recv(comm, out[1], comm.rank, codec="zstd", tag=4)
        assert first.wire_bytes == second.wire_bytes == 0
        assert first.codec == second.codec == "raw"
        assert torch.equal(out[0], smooth(10))
        assert not out[1].any()
        send(comm, tensor, comm.rank)
        with pytest.raises(MismatchError):
            recv(comm, torch.zeros(11), comm.rank)
        return True

    assert launch(world_size, oneself) == [True] * world_size


def test_nothing_from_oneself_times_out_and_does_no_harm():
    def oneself(comm):
        with pytest.raises(CommTimeoutError, match="receive from rank 0"):
            recv(comm, torch.zeros(3), 0)
        out = torch.zeros(3)
        send(comm, torch.ones(3), 0)
        recv(comm, out, 0)
        return out.tolist()

    assert run_ranks(1, oneself, timeout_s=0.1) == [[1.0] * 3]


@pytest.mark.parametrize("operation", [send, recv])
@pytest.mark.parametrize(
    ("tensor", "options", "error", "text"),
    [
        (torch.zeros(3), {"strategy": "teleport"}, InputError, "known: raw, encode_send"),
        (torch.zeros(3), {"codec": "morse"}, UnknownCodecError, "known: raw"),
        (torch.zeros(3), {"codec": "zstd", "strategy": "raw"}, InputError, "no use for codec zstd"),
        (torch.zeros(3), {"tag": -1}, InputError, "tag"),
        (torch.zeros(3), {"tag": 2**30}, InputError, "tag"),
        (torch.zeros(3, device="meta"), {}, InputError, "CPU"),
        (torch.zeros(3).to_sparse(), {}, InputError, "dense"),
    ],
)
def test_bad_arguments_are_refused(operation, tensor, options, error, text):
    with pytest.raises(error, match=text):
        run_ranks(2, lambda comm: operation(comm, tensor, 1, **options) if comm.rank == 0 else None)


def test_ranks_outside_the_group_are_refused():
    for peer in (-1, 2):
        with pytest.raises(InputError, match=f"no rank {peer}"):
            run_ranks(2, lambda comm, peer=peer: send(comm, torch.zeros(3), peer))


@pytest.mark.parametrize("operation", [send, recv])
@pytest.mark.parametrize("peer", [0, 1])
@pytest.mark.parametrize("numel", [0, 3])
def test_codec_that_does_not_take_the_float_is_refused_before_anything_is_posted(operation, peer, numel):
    def run(comm):
        if comm.rank == 0:
            tensor = torch.zeros(numel).to(torch.float8_e5m2)
            with pytest.raises(UnsupportedDtypeError, match=rf"rank 0: {operation.__name__} .*codec pcodec"):
                operation(comm, tensor, peer, codec="pcodec")
        # Nothing is left over: the next message of the channel is the first.
        out = torch.zeros(4)
        if comm.rank == 0 and peer == 0:
            send(comm, torch.ones(4), 0)
            recv(comm, out, 0)
        elif comm.rank == (0 if operation is send else 1) and peer == 1:
            send(comm, torch.ones(4), 1 - comm.rank)
        elif peer == 1:
            recv(comm, out, 1 - comm.rank)
        return out.sum().item()

    run_ranks(2, run, timeout_s=5)
