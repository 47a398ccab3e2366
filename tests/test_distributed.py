"""`wirezip.distributed`: torch.distributed's functions, over forked gloo ranks."""

import gc
import inspect

import pytest
import torch
import torch.distributed as dist

import wirezip.distributed as zdist
from wirezip.codecs import unavailable_reason
from wirezip.comm.processes import run_forked
from wirezip.errors import InputError, MismatchError

RANKS = 3


@pytest.fixture(autouse=True)
def timeout(monkeypatch):
    # A rank may have to wait while its peer compiles a codec for the first time.
    monkeypatch.setenv("WIREZIP_TIMEOUT_S", "240")


def values(rank, dtype=torch.bfloat16):
    return torch.randn(1001, generator=torch.Generator().manual_seed(rank)).to(dtype)


@pytest.mark.parametrize("name", ["send", "recv", "all_gather", "all_gather_into_tensor", "all_reduce"])
def test_signatures_begin_with_those_of_torch(name):
    theirs = inspect.signature(getattr(dist, name)).parameters.values()
    ours = list(inspect.signature(getattr(zdist, name)).parameters.values())
    assert [(entry.name, entry.default, entry.kind) for entry in theirs] == [
        (entry.name, entry.default, entry.kind) for entry in ours[: len(theirs)]
    ]
    assert all(entry.kind == inspect.Parameter.KEYWORD_ONLY for entry in ours[len(theirs) :])


def test_send_and_recv():
    def run(comm):
        out = torch.zeros(1001, dtype=torch.bfloat16)
        if comm.rank == 0:
            assert zdist.send(values(0), 2, tag=3, codec="zstd") is None
        elif comm.rank == 2:
            assert zdist.recv(out, 0, tag=3, codec="zstd") == 0
            assert torch.equal(out, values(0))
        return True

    assert all(run_forked(RANKS, run))


def test_auto_is_the_default_codec():
    if reason := unavailable_reason("rans"):
        pytest.skip(reason)

    def run(comm):
        if comm.rank == 0:
            zdist.send(torch.arange(9), 1)
            zdist.send(values(0), 1)
        else:
            whole, out = torch.zeros(9, dtype=torch.int64), torch.zeros(1001, dtype=torch.bfloat16)
            zdist.recv(whole, 0, codec="raw")
            zdist.recv(out, 0, codec="rans")
            assert torch.equal(whole, torch.arange(9))
            assert torch.equal(out, values(0))
        return True

    assert all(run_forked(2, run))


def test_strategy_raw_goes_with_the_default_codec():
    def run(comm):
        out = torch.zeros(1001, dtype=torch.bfloat16)
        if comm.rank == 0:
            zdist.send(values(0), 1, strategy="raw")
        else:
            zdist.recv(out, 0, strategy="raw")
        return comm.rank == 0 or torch.equal(out, values(0))

    assert all(run_forked(2, run))


def test_subgroups_translate_ranks():
    def run(comm):
        group = dist.new_group([2, 0])
        if comm.rank == 1:
            with pytest.raises(InputError, match="not in the group"):
                zdist.all_reduce(torch.zeros(2), group=group, codec="raw")
            return None
        other = 2 - comm.rank
        out = torch.zeros(1001, dtype=torch.bfloat16)
        if comm.rank == 2:
            zdist.send(values(2), other, group, codec="zstd")
            zdist.send(values(2), group=group, group_dst=dist.get_group_rank(group, 0), codec="zstd")
            with pytest.raises(InputError, match="dst=1 is not in the group"):
                zdist.send(values(2), 1, group, codec="raw")
        else:
            assert zdist.recv(out, other, group, codec="zstd") == 2
            assert zdist.recv(out, group=group, group_src=dist.get_group_rank(group, 2), codec="zstd") == 2
            assert torch.equal(out, values(2))
        total = values(comm.rank)
        zdist.all_reduce(total, group=group, codec="zstd")
        expected = values(comm.rank)
        dist.all_reduce(expected, group=group)
        return torch.equal(total, expected)

    assert run_forked(RANKS, run) == [True, None, True]


def test_all_gather_equals_torchs():
    def run(comm):
        ours = [torch.zeros(1001, dtype=torch.bfloat16) for _ in range(RANKS)]
        theirs = [torch.zeros_like(tensor) for tensor in ours]
        assert zdist.all_gather(ours, values(comm.rank), codec="zstd") is None
        dist.all_gather(theirs, values(comm.rank))
        return all(torch.equal(*pair) for pair in zip(ours, theirs, strict=True))

    assert run_forked(RANKS, run) == [True] * RANKS


def test_all_gather_into_tensor_concatenates_stacks_and_strides():
    def run(comm):
        own = torch.full((2, 3), float(comm.rank))
        expected = torch.arange(float(RANKS)).repeat_interleave(6)
        flat, stacked, strided = torch.zeros(2 * RANKS, 3), torch.zeros(RANKS, 2, 3), torch.zeros(2 * RANKS, 6)[:, ::2]
        for output in (flat, stacked, strided):
            assert zdist.all_gather_into_tensor(output, own, codec="zstd") is None
            assert torch.equal(output.reshape(-1), expected)
        zdist.all_gather_into_tensor(torch.zeros(0), torch.zeros(0), codec="zstd")
        with pytest.raises(InputError, match=f"needs an output of {6 * RANKS} elements, got 5"):
            zdist.all_gather_into_tensor(torch.zeros(5), own, codec="raw")
        return True

    assert run_forked(RANKS, run) == [True] * RANKS


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("op", ["SUM", "MIN", "MAX", "PRODUCT"])
def test_all_reduce_equals_gloos_own_on_two_ranks(op, dtype):
    def run(comm):
        ours, theirs = values(comm.rank, dtype), values(comm.rank, dtype)
        assert zdist.all_reduce(ours, getattr(dist.ReduceOp, op), codec="zstd") is None
        dist.all_reduce(theirs, getattr(dist.ReduceOp, op))
        return torch.equal(ours, theirs)

    assert run_forked(2, run) == [True, True]


def test_all_reduce_averages_which_gloo_does_not():
    def run(comm):
        tensor = torch.full((5,), float(comm.rank))
        zdist.all_reduce(tensor, dist.ReduceOp.AVG, codec="raw")
        return tensor.tolist()

    assert run_forked(RANKS, run) == [[1.0] * 5] * RANKS


def test_what_is_not_there_is_refused():
    def run(comm):
        tensor = torch.zeros(3)
        with pytest.raises(InputError, match="async_op"):
            zdist.all_reduce(tensor, async_op=True)
        with pytest.raises(InputError, match="async_op"):
            zdist.all_gather([tensor], tensor, async_op=True)
        with pytest.raises(InputError, match="async_op"):
            zdist.all_gather_into_tensor(tensor, tensor, async_op=True)
        with pytest.raises(InputError, match="known: SUM"):
            zdist.all_reduce(tensor, dist.ReduceOp.BXOR)
        with pytest.raises(InputError, match="either src or group_src"):
            zdist.recv(tensor)
        with pytest.raises(InputError, match="either dst or group_dst"):
            zdist.send(tensor, 0, group_dst=0)
        with pytest.raises(InputError, match="CPU"):
            zdist.send(tensor.to("meta"), 1, codec="raw")
        return True

    assert run_forked(1, run) == [True]


def test_disagreement_is_a_mismatch():
    def run(comm):
        with pytest.raises(MismatchError, match="codec"):
            zdist.all_reduce(torch.zeros(8), codec="zstd" if comm.rank else "lz4")
        return True

    assert run_forked(2, run) == [True, True]


def test_communicators_are_cached_per_group_and_do_not_keep_it():
    def run(comm):
        first, group = dist.group.WORLD, dist.new_group([0, 1])
        assert zdist.communicator_of() is zdist.communicator_of(first)
        assert zdist.communicator_of(group) is zdist.communicator_of(group)
        assert zdist.communicator_of(group) is not zdist.communicator_of()
        zdist.all_reduce(torch.zeros(3), group=group, codec="raw")
        before = len(zdist._communicators)
        dist.destroy_process_group(group)
        del group
        gc.collect()
        return before, len(zdist._communicators)

    assert run_forked(2, run) == [(2, 1), (2, 1)]


def test_a_second_default_group_starts_afresh(tmp_path):
    def run(comm):
        totals = []
        for index in range(2):
            tensor = torch.ones(5)
            zdist.all_reduce(tensor, codec="raw")
            totals.append(tensor.tolist())
            if index == 0:
                dist.barrier()
                dist.destroy_process_group()
                dist.init_process_group("gloo", f"file://{tmp_path}/again", rank=comm.rank, world_size=comm.world_size)
        return totals

    assert run_forked(2, run) == [[[2.0] * 5] * 2] * 2


def test_torch_distributed_must_be_initialised():
    with pytest.raises(InputError, match="init_process_group"):
        zdist.all_reduce(torch.zeros(3))
