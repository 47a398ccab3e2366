"""The operators that `torch.compile` keeps in its graphs."""

import pytest
import torch

from wirezip.codecs import conformance, get, ops
from wirezip.errors import CorruptFrameError, InputError

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("codec", ["window", "rans"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_round_trip(codec, dtype):
    for _, values in conformance.distributions(9001, dtype):
        values = values.to(DEVICE)
        body = ops.encode(values, codec)
        assert body.numel() == get(codec).max_encoded_bytes(9001, dtype)
        back, status = ops.decode(body, codec, 9001, dtype)
        ops.check(status)
        assert torch.equal(back.view(torch.uint8), values.view(torch.uint8))


@pytest.mark.parametrize("codec", ["window", "rans"])
def test_pytorch_s_own_check_of_operators(codec):
    values = torch.randn(5000).bfloat16().to(DEVICE)
    torch.library.opcheck(
        torch.ops.wirezip.encode.default, (values, codec), test_utils=("test_schema", "test_faketensor")
    )
    arguments = (ops.encode(values, codec), codec, 5000, torch.bfloat16)
    torch.library.opcheck(torch.ops.wirezip.decode.default, arguments, test_utils=("test_schema", "test_faketensor"))


def test_a_compiled_graph_does_not_break():
    def there_and_back(values):
        back, status = ops.decode(ops.encode(values * 2, "window"), "window", values.numel(), values.dtype)
        return back + 1, status

    values = torch.randn(4000, device=DEVICE)
    compiled = torch.compile(there_and_back, fullgraph=True, backend="eager")
    back, status = compiled(values)
    ops.check(status)
    assert torch.equal(back, values * 2 + 1)


def test_corrupt_bodies():
    values = torch.randn(4000, device=DEVICE)
    body = ops.encode(values, "window")
    body[8] ^= 1
    _, status = ops.decode(body, "window", 4000, torch.float32)
    with pytest.raises(CorruptFrameError, match="the body is corrupt: its header"):
        ops.check(status)


def test_other_codecs_are_refused():
    with pytest.raises(InputError, match="codec raw is not an operator; those that are: window, rans"):
        ops.encode(torch.randn(10), "raw")
