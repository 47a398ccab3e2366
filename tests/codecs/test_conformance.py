"""Every codec keeps the contract, and the kit that says so catches codecs that do not."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from wirezip import codecs
from wirezip.codecs import conformance
from wirezip.codecs.base import Codec
from wirezip.codecs.raw.codec import Raw
from wirezip.floats import FLOAT_FORMATS

VARIANTS = {
    "raw": [{}],
    "window": [{}, {"tile_elems": 1024, "placement": "slotted"}],
    "rans": [{}, {"tile_elems": 2048, "stream_elems": 1024, "placement": "slotted"}],
    "zstd": [{}],
    "lz4": [{}],
    "blosc": [{}],
    "pcodec": [{}],
}


def test_every_codec_is_covered():
    assert set(VARIANTS) == set(codecs.names())


@pytest.mark.parametrize("check", conformance.CHECKS + conformance.LOSSLESS_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("dtype", FLOAT_FORMATS, ids=str)
@pytest.mark.parametrize(
    ("name", "options"), [(name, options) for name, variants in VARIANTS.items() for options in variants]
)
def test_conforms(name, options, dtype, check):
    reason = codecs.unavailable_reason(name)
    if reason:
        pytest.skip(reason)
    codec = codecs.get(name, **options)
    if not codec.supports(dtype):
        pytest.skip(f"{name} does not take {dtype}")
    check(codec, dtype)


@dataclass(frozen=True)
class LosesLast(Raw):
    def decode(self, body, out):
        super().decode(body, out)
        out.view(torch.uint8)[-1] = 0


@dataclass(frozen=True)
class QuietsNans(Raw):
    def decode(self, body, out):
        super().decode(body, out)
        out[out.isnan()] = float("nan")


@dataclass(frozen=True)
class DropsSignOfZero(Raw):
    def decode(self, body, out):
        super().decode(body, out)
        out[out == 0] = 0.0


@dataclass(frozen=True)
class ChangesInput(Raw):
    def encode(self, values, out=None):
        body = super().encode(values, out)
        values.view(torch.uint8)[0] ^= 1
        return body


@dataclass(frozen=True)
class Grows(Raw):
    def max_encoded_bytes(self, numel, dtype):
        return super().max_encoded_bytes(numel, dtype) - 1

    def output_for(self, values, out):
        return torch.empty(values.nbytes, dtype=torch.uint8) if out is None else out


@dataclass(frozen=True)
class WritesBeyond(Raw):
    def encode(self, values, out=None):
        body = super().encode(values, out)
        if out is not None and out.numel() > body.numel():
            out[body.numel()] = 0
        return body


@dataclass(frozen=True)
class LeaksMemory(Raw):
    name: ClassVar[str] = "leaks"

    def max_encoded_bytes(self, numel, dtype):
        return super().max_encoded_bytes(numel, dtype) + 1

    def encode(self, values, out=None):
        out = torch.zeros(values.nbytes + 1, dtype=torch.uint8) if out is None else out
        out[: values.nbytes] = values.view(torch.uint8)
        return out[: values.nbytes + 1]


@dataclass(frozen=True)
class AcceptsPrefix(Raw):
    def decode(self, body, out):
        out.view(torch.uint8)[: body.numel()] = body


@dataclass(frozen=True)
class TakesAnything(Raw):
    def output_for(self, values, out):
        return torch.empty(values.nbytes, dtype=torch.uint8) if out is None else out

    def encode(self, values, out=None):
        octets = values.contiguous().reshape(-1).view(torch.uint8)
        return self.output_for(values, out)[: octets.numel()].copy_(octets[: octets.numel()])


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (LosesLast, conformance.check_round_trip),
        (QuietsNans, conformance.check_round_trip),
        (DropsSignOfZero, conformance.check_round_trip),
        (ChangesInput, conformance.check_input_unchanged),
        (Grows, conformance.check_bound),
        (WritesBeyond, conformance.check_bound),
        (LeaksMemory, conformance.check_deterministic),
        (AcceptsPrefix, conformance.check_truncation),
        (TakesAnything, conformance.check_bad_arguments),
    ],
)
def test_kit_catches(broken: type[Codec], check):
    with pytest.raises(conformance.ConformanceError):
        check(broken(), torch.float32)
