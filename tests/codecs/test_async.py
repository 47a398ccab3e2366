"""Launches that nothing waits for: batches, workspaces, errors; on a GPU, or in the interpreter on small tensors."""

import threading

import pytest
import torch
from tile_data import mixed

from wirezip import codecs
from wirezip.codecs.tiles import workspace
from wirezip.errors import CorruptFrameError, InputError, UnsupportedDtypeError

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = {"window": {"tile_elems": 1024}, "rans": {"tile_elems": 2048, "stream_elems": 1024}}
every_codec = pytest.mark.parametrize("name", SMALL)


def triton_codec(name, **options):
    return codecs.get(name, implementation="triton", **{**SMALL[name], **options})


def octets(tensor):
    return tensor.cpu().view(torch.uint8)


@every_codec
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.float8_e5m2], ids=str)
def test_batch_equals_single_tensors(name, dtype):
    codec, reference = triton_codec(name), codecs.get(name, implementation="reference", **SMALL[name])
    tensors = [mixed(numel, 700, dtype) for numel in (1, 3000, 63, 9000, 2048, 17)]
    made = codec.encode_batch([tensor.to(DEVICE) for tensor in tensors])
    bodies = made.wait()
    outs = [torch.empty_like(tensor, device=DEVICE) for tensor in tensors]
    codec.decode_batch(made.buffers, outs).wait()
    for tensor, body, out in zip(tensors, bodies, outs, strict=True):
        assert torch.equal(body.cpu(), reference.encode(tensor))
        assert torch.equal(octets(out), octets(tensor))


@every_codec
def test_a_corrupt_tensor_of_a_batch_is_named(name):
    codec = triton_codec(name)
    tensors = [torch.randn(3000).bfloat16().to(DEVICE) for _ in range(3)]
    buffers = codec.encode_batch(tensors).buffers
    buffers[1][32 + 12] = 77
    with pytest.raises(CorruptFrameError, match=f"{name}: tensor 1: the body is corrupt: tile 0"):
        codec.decode_batch(buffers, tensors).wait()


@every_codec
def test_size_is_known_to_the_device_first(name):
    codec, values = triton_codec(name), torch.randn(5000).bfloat16().to(DEVICE)
    encoding = codec.encode_async(values)
    encoding.request()
    assert encoding.tiles.section_offset + int(encoding.section_bytes()) == encoding.num_bytes()
    assert encoding.wait().numel() == encoding.num_bytes() < encoding.buffer.numel()
    out = torch.empty_like(values)
    codec.decode_async(encoding.buffer, out, slack=True).wait()
    assert torch.equal(octets(out), octets(values))


@every_codec
def test_errors_surface_when_waited_for(name):
    codec, values = triton_codec(name), torch.randn(5000).bfloat16().to(DEVICE)
    body = codec.encode(values)
    body[32 + 16 + 12] = 77
    decoding = codec.decode_async(body, torch.empty_like(values))
    with pytest.raises(CorruptFrameError, match=f"{name}: the body is corrupt: tile 1"):
        decoding.wait()
    body[32 + 16 + 12] = 255
    other = triton_codec(name, tile_elems=4096)
    with pytest.raises(CorruptFrameError, match="its header is not what the geometry asks for"):
        other.decode_async(body, torch.empty_like(values)).wait()
    good = codec.encode(values)
    other.decode(good, out := torch.empty_like(values))
    assert torch.equal(octets(out), octets(values))


@every_codec
def test_workspace(name):
    codec, values = triton_codec(name), torch.randn(5000).bfloat16().to(DEVICE)
    needed = codec.workspace_bytes(5000, torch.bfloat16)
    given = torch.empty(needed + 16, dtype=torch.uint8, device=DEVICE)
    body = codec.encode_async(values, workspace=given).wait()
    assert torch.equal(body, codec.encode(values))
    for wrong, what in (
        (given[: needed - 1], "needed"),
        (given[1:], "multiple of 16"),
        (given.view(torch.int8), "uint8"),
    ):
        with pytest.raises(InputError, match=what):
            codec.encode_async(values, workspace=wrong)
    assert workspace.held()
    workspace.release()
    assert not workspace.held()


@every_codec
def test_bad_input_is_refused_before_a_launch(name):
    codec, values = triton_codec(name), torch.randn(5000).bfloat16().to(DEVICE)
    room = torch.empty(codec.max_encoded_bytes(5000, torch.bfloat16) + 16, dtype=torch.uint8, device=DEVICE)
    for call, error, what in (
        (lambda: codec.encode_async(values, room[3:]), InputError, "multiple of 16"),
        (lambda: codec.encode_async(values, room[:100]), InputError, "may be needed"),
        (lambda: codec.encode_async(values.int()), UnsupportedDtypeError, "does not take torch.int32"),
        (lambda: codec.decode_async(room.float(), values), InputError, "uint8"),
        (lambda: codec.decode_async(room, values[:0]), InputError, "at least one element"),
        (lambda: codec.decode_async(room, values.int()), CorruptFrameError, "torch.int32"),
        (lambda: codec.encode_batch([]), InputError, "at least one tensor"),
        (lambda: codec.encode_batch([values, values.float()]), InputError, "tensor 1 of a batch is torch.float32"),
        (lambda: codec.encode_batch([values, values[::2]]), InputError, "tensor 1 of a batch has shape"),
        (lambda: codec.encode_batch([values.int()]), UnsupportedDtypeError, "does not take torch.int32"),
        (lambda: codec.decode_batch([room], [values, values]), InputError, "1 bodies for 2 tensors"),
    ):
        with pytest.raises(error, match=what):
            call()


@pytest.mark.skipif(DEVICE == "cpu", reason="the interpreter runs one kernel at a time, on no stream")
@every_codec
def test_threads_and_streams(name):
    codec = codecs.get(name)
    failures = []

    def work(seed):
        stream = torch.cuda.Stream() if seed % 2 else torch.cuda.current_stream()
        with torch.cuda.stream(stream):
            for turn in range(20):
                values = torch.randn(100_000 + 1000 * seed, device="cuda").bfloat16() * turn
                out = torch.empty_like(values)
                codec.decode_async(codec.encode_async(values).buffer, out, slack=True).wait()
                if not torch.equal(octets(out), octets(values)):
                    failures.append((seed, turn))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(DEVICE == "cpu", reason="there are no CUDA graphs without a GPU")
@every_codec
def test_cuda_graph(name):
    codec, values = codecs.get(name), torch.randn(1 << 20, device="cuda").bfloat16()
    buffer = torch.empty(codec.max_encoded_bytes(values.numel(), values.dtype), dtype=torch.uint8, device="cuda")
    out = torch.empty_like(values)
    codec.decode_async(codec.encode_async(values, buffer).buffer, out, slack=True).wait()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        codec.encode_async(values, buffer)
        decoding = codec.decode_async(buffer, out, slack=True)
    for scale in (1.0, 1e-3, 100.0):
        values.copy_((torch.randn(1 << 20, device="cuda") * scale).bfloat16())
        out.zero_()
        graph.replay()
        decoding.wait()
        assert torch.equal(octets(out), octets(values))
