"""What the words of a request mean, and which are refused before any rank starts."""

import pytest

from wirezip.bench.links import parse_link
from wirezip.bench.operations import Route
from wirezip.bench.options import Request, Sizes, parse_size, split_list
from wirezip.errors import InputError, UnknownCodecError, UnsupportedDtypeError

M = 1 << 20


@pytest.mark.parametrize(
    ("text", "num_bytes"), [("8", 8), ("64K", 65536), ("1M", M), ("2g", 2 << 30), ("4MiB", 4 * M), ("16KB", 16384)]
)
def test_sizes_are_read_as_nccl_tests_does(text, num_bytes):
    assert parse_size(text) == num_bytes


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5M", "12Q", "M", "1 M 2"])
def test_illegal_sizes_are_refused(text):
    with pytest.raises(InputError, match="expected a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("sizes", "listed"),
    [
        (Sizes(), [None]),
        (Sizes("1M"), [M]),
        (Sizes("1M", "8M"), [M, 2 * M, 4 * M, 8 * M]),
        (Sizes("1M", "16M", factor=4), [M, 4 * M, 16 * M]),
        (Sizes("1M", "3M", step_bytes="1M"), [M, 2 * M, 3 * M]),
        (Sizes(None, "2M"), [M, 2 * M]),
        (Sizes(None, "4K"), [4096]),
        (Sizes("3M", "7M"), [3 * M, 6 * M]),
    ],
)
def test_sweeps(sizes, listed):
    assert sizes.list() == listed


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        (Sizes("2M", "1M"), "exceeds"),
        (Sizes("1M", "2M", factor=1), "factor of 2"),
        (Sizes("1M", "2M", 2, "1M"), "not both"),
        (Sizes("1K", "1M", step_bytes="1K"), "more than 64 sizes"),
    ],
)
def test_illegal_sweeps_are_refused(sizes, text):
    with pytest.raises(InputError, match=text):
        sizes.list()


def test_lists_may_be_repeated_and_comma_separated():
    assert split_list(["raw,zstd", "zstd", " lz4 ,"]) == ["raw", "zstd", "lz4"]


def test_links():
    assert parse_link("loopback").rate_gbit_s is None
    link = parse_link("emulated:250Mbit")
    assert (link.emulated, link.rate_gbit_s) == (True, 0.25)
    for text in ("loop", "emulated", "emulated:0Gbit", "emulated:-1Gbit", "emulated:1Gbit/s"):
        with pytest.raises(InputError, match="known: loopback"):
            parse_link(text)


def test_cells_are_the_product_of_links_data_and_sizes():
    request = Request(
        "p2p", ["raw", "zstd"], ["kv-bf16", "field-fp32"], ["loopback", "emulated:1Gbit"], sizes=Sizes("1K", "4K")
    )
    cells, skips = request.cells()
    assert len(cells) == 2 * 2 * 3
    assert cells[0].routes == (Route("raw", None, "raw"), Route("zstd", None, "encode_send"))
    assert skips == []


def test_a_codec_that_does_not_take_the_dtype_is_skipped_and_named():
    cells, skips = Request("all_gather", ["pcodec", "zstd"], ["normal"], dtype="e4m3").cells()
    assert cells[0].routes == (Route("zstd", "direct"),)
    assert [(skip.name, skip.reason) for skip in skips] == [("pcodec", "does not take float8_e4m3fn")]


def test_strategy_raw_is_for_codec_raw_alone():
    cells, skips = Request("p2p", ["raw", "zstd"], strategies=["raw", "encode_send"]).cells()
    assert cells[0].routes == (
        Route("raw", None, "raw"),
        Route("raw", None, "encode_send"),
        Route("zstd", None, "encode_send"),
    )
    assert [(skip.name, skip.reason) for skip in skips] == [("zstd", "strategy raw sends without a codec")]


@pytest.mark.parametrize(
    ("request_", "error", "text"),
    [
        (Request("broadcast"), InputError, "known: p2p"),
        (Request("p2p", ["nope"]), UnknownCodecError, "known: raw"),
        (Request("p2p", data=["nope"]), InputError, "known: weights-bf16"),
        (Request("p2p", backend="mpi"), InputError, "known: gloo"),
        (Request("p2p", num_ranks=3), InputError, "2 ranks, got 3"),
        (Request("all_reduce", num_ranks=1), InputError, "got 1"),
        (Request("all_reduce", reduction="max"), InputError, "known: sum"),
        (Request("p2p", algorithms=["direct"]), InputError, "no algorithms"),
        (Request("all_reduce", strategies=["raw"]), InputError, "no strategies"),
        (Request("p2p", strategies=["nope"]), InputError, "known: raw"),
        (Request("all_reduce", algorithms=["nope"]), InputError, "known: two_shot"),
        (Request("p2p", dtype="nope", data=["normal"]), UnsupportedDtypeError, "known: bfloat16"),
        (Request("p2p", dtype="fp32"), InputError, "not cast"),
        (Request("p2p", num_iters=0), InputError, "-n of 1"),
        (Request("p2p", num_warmup=-1), InputError, "-w of 0"),
        (Request("p2p", num_checks=0), InputError, "-c of 1"),
        (Request("p2p", codecs=[]), InputError, "at least one codec"),
        (Request("p2p", sizes=Sizes("900G")), InputError, "bytes of memory"),
    ],
)
def test_bad_requests_are_refused_with_what_is_known(request_, error, text):
    with pytest.raises(error, match=text):
        request_.cells()
