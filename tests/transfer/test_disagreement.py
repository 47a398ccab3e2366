"""`send` and `recv` between sides that disagree, and over a channel that loses or damages octets."""

import threading

import pytest
import torch

from wirezip.codecs import unavailable_reason
from wirezip.comm.faulty import FaultyCommunicator, close, drop, flip_byte
from wirezip.comm.processes import run_forked
from wirezip.comm.threads import run_ranks
from wirezip.errors import ChecksumError, CommError, CommTimeoutError, CorruptFrameError, MismatchError, PeerLostError
from wirezip.transfer import channel, recv, send
from wirezip.transfer.message import Call, MessageHeader


@pytest.fixture(autouse=True)
def timeout(monkeypatch):
    # A rank may have to wait while its peer compiles a codec for the first time.
    monkeypatch.setenv("WIREZIP_TIMEOUT_S", "240")


def smooth(numel):
    return torch.randn(numel, generator=torch.Generator().manual_seed(1))


def disagree(expected, sent, launch=run_ranks):
    """Rank 0 sends as `sent` says, rank 1 receives as `expected` says; then both agree on a second message."""

    def both(comm):
        if comm.rank == 0:
            send(comm, sent.pop("tensor"), 1, **sent)
            send(comm, torch.full((5,), 7.0), 1, codec="zstd", tag=sent.get("tag", 0))
            return None
        with pytest.raises(MismatchError) as mismatch:
            recv(comm, expected.pop("tensor"), 0, **expected)
        out = torch.zeros(5)
        recv(comm, out, 0, codec="zstd", tag=expected.get("tag", 0))
        return str(mismatch.value), out.tolist()

    text, out = launch(2, both)[1]
    assert out == [7.0] * 5
    assert "rank 1 expects" in text
    assert "rank 0 sent" in text
    return text


@pytest.mark.parametrize("launch", [run_ranks, run_forked])
def test_other_dtype_is_a_mismatch(launch):
    text = disagree({"tensor": torch.zeros(8)}, {"tensor": torch.zeros(8, dtype=torch.int32)}, launch)
    assert "float32" in text
    assert "int32" in text
    assert "differ in dtype" in text


@pytest.mark.parametrize("launch", [run_ranks, run_forked])
@pytest.mark.parametrize(("here", "there"), [(8, 9), (0, 8), (8, 0), (10, 3_000_000)])
def test_other_element_count_is_a_mismatch(launch, here, there, monkeypatch):
    monkeypatch.setattr(channel, "PIECE_BYTES", 1 << 20)
    text = disagree({"tensor": torch.zeros(here)}, {"tensor": torch.zeros(there)}, launch)
    assert f"{here} elements" in text
    assert f"{there} elements" in text


def test_other_codec_and_other_strategy_are_mismatches():
    text = disagree({"tensor": torch.zeros(8), "codec": "lz4"}, {"tensor": torch.zeros(8), "codec": "zstd"})
    assert "codec lz4" in text
    assert "codec zstd" in text
    text = disagree({"tensor": torch.zeros(8), "strategy": "raw"}, {"tensor": torch.zeros(8)})
    assert "differ in method" in text


def test_mismatch_is_not_hidden_by_a_body_that_never_comes():
    def both(comm):
        if comm.rank == 0:
            send(FaultyCommunicator(comm, drop(1)), smooth(9), 1)
            return
        with pytest.raises(MismatchError, match="8 here, 9 there") as mismatch:
            recv(comm, torch.zeros(8), 0)
        assert isinstance(mismatch.value.__cause__, CommError)
        with pytest.raises(CommError, match="any more: the body of a message did not come"):
            recv(comm, torch.zeros(8), 0)

    run_ranks(2, both, timeout_s=10)


def test_lost_message_is_a_mismatch_once():
    def both(comm):
        if comm.rank == 0:
            # Each message is a header and a body.
            faulty = FaultyCommunicator(comm, drop(2, 2))
            for value in range(4):
                send(faulty, torch.full((4,), float(value)), 1)
            return None
        got = []
        for _ in range(3):
            out = torch.zeros(4)
            try:
                recv(comm, out, 0)
                got.append(out[0].item())
            except MismatchError as error:
                got.append(str(error))
        return got

    first, second, third = run_ranks(2, both, timeout_s=10)[1]
    assert first == 0.0
    assert "sequence (1 here, 2 there)" in second
    assert third == 3.0


def damaged(fault, tensor, out, **options):
    def both(comm):
        if comm.rank == 0:
            return send(FaultyCommunicator(comm, fault), tensor, 1, **options)
        return recv(comm, out, 0, **options)

    return run_ranks(2, both)


@pytest.mark.parametrize("name", ["raw", "zstd", "blosc", "window", "rans"])
@pytest.mark.parametrize("offset", [0, 500, -1])
def test_damaged_body_is_found_by_the_checksum(name, offset, monkeypatch):
    if reason := unavailable_reason(name):
        pytest.skip(reason)
    monkeypatch.setenv("WIREZIP_MESSAGE_CHECKSUM", "1")
    tensor, out = smooth(1000).bfloat16(), torch.zeros(1000, dtype=torch.bfloat16)
    text = ""
    try:
        damaged(flip_byte(1, offset), tensor, out, codec=name)
    except CorruptFrameError as error:
        text = str(error)
    # The byte may be one that does not count, such as padding; never so in a raw body.
    assert text.startswith("rank 1, message from rank 0 (tag 0)") or (name != "raw" and torch.equal(out, tensor))


def test_damage_goes_unseen_in_raw_without_a_checksum():
    out = torch.zeros(10)
    damaged(flip_byte(1, 0), smooth(10), out)
    assert not torch.equal(out, smooth(10))


def test_channel_stays_in_step_after_a_damaged_body(monkeypatch):
    monkeypatch.setenv("WIREZIP_MESSAGE_CHECKSUM", "1")

    def both(comm):
        tensor, out = smooth(100), torch.zeros(100)
        if comm.rank == 0:
            faulty = FaultyCommunicator(comm, flip_byte(1, 5))
            send(faulty, tensor, 1)
            send(faulty, tensor, 1)
            return True
        with pytest.raises(ChecksumError):
            recv(comm, out, 0)
        recv(comm, out, 0)
        return torch.equal(out, tensor)

    assert run_ranks(2, both, timeout_s=10) == [True, True]


def test_damaged_header_is_an_error_and_closes_the_channel():
    def both(comm):
        if comm.rank == 0:
            with pytest.raises(CommError):
                send(FaultyCommunicator(comm, flip_byte(0, 100)), smooth(10), 1)
            return
        with pytest.raises(CorruptFrameError, match=r"rank 1, message from rank 0.*check"):
            recv(comm, torch.zeros(10), 0)
        with pytest.raises(CommError, match="any more"):
            recv(comm, torch.zeros(10), 0)

    run_ranks(2, both, timeout_s=10)


def test_channel_is_closed_to_the_sender_after_a_message_that_did_not_leave():
    def both(comm):
        if comm.rank == 0:
            refusing = FaultyCommunicator(comm, close(1))
            with pytest.raises(PeerLostError, match="injected"):
                send(refusing, smooth(10), 1)
            with pytest.raises(CommError, match=r"rank 0 cannot send to rank 1 \(tag 0\) any more: .*injected"):
                send(refusing, smooth(10), 1)
            # Other tags and the other direction are other streams.
            recv(refusing, torch.zeros(10), 1)
            with pytest.raises(PeerLostError, match="injected"):
                send(refusing, smooth(10), 1, tag=1)
            return
        send(comm, smooth(10), 0)

    run_ranks(2, both, timeout_s=10)


def test_channel_is_closed_to_the_sender_after_a_timeout():
    def both(comm):
        if comm.rank == 1:
            done.wait(10)
            return
        with pytest.raises(CommTimeoutError, match="send to rank 1"):
            send(comm, smooth(10), 1)
        with pytest.raises(CommError, match="any more: a message did not leave"):
            send(comm, smooth(10), 1)
        done.set()

    done = threading.Event()
    run_ranks(2, both, timeout_s=0.1)


@pytest.mark.parametrize("body_bytes", [0, 3, 1 << 40])
def test_implausible_body_is_refused_before_memory_is_taken(body_bytes):
    def both(comm):
        if comm.rank == 0:
            call = Call("send", "encode_send", "zstd", torch.float32, 1 << 20)
            header = MessageHeader(call, 0, 1, 0, 0, 0, 1 << 20, "zstd", body_bytes)
            comm.isend(torch.frombuffer(bytearray(header.pack()), dtype=torch.uint8), 1).wait()
            return
        with pytest.raises(CorruptFrameError, match=f"declares {body_bytes}"):
            recv(comm, torch.zeros(1 << 20), 0, codec="zstd")

    run_ranks(2, both, timeout_s=10)
