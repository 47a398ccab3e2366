"""Damages valid frames and decodes them; run by test_corruption.py in a process of its own.

    python tests/corrupting.py mutations COUNT PROGRESS_FILE
    python tests/corrupting.py prefixes PROGRESS_FILE

print a JSON summary. A decoder that kills the process leaves in PROGRESS_FILE what it was given.
"""

import collections
import faulthandler
import json
import os
import random
import struct
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterable

import psutil
import torch

import wirezip
from wirezip import codecs
from wirezip.codecs import conformance
from wirezip.errors import WirezipError
from wirezip.floats import DTYPES, FLOAT_FORMATS, dtype_name

SEED = 20_000
NUMEL = 1823
VARIANTS = {
    "window": [{"tile_elems": 1024}, {"tile_elems": 1024, "placement": "slotted"}],
    "rans": [{"tile_elems": 1024, "stream_elems": 1024}, {"tile_elems": 2048, "stream_elems": 1024}],
}
HEADER_CHECK = slice(44, 48)
# A call takes less than a millisecond; one that takes this long hangs, and the process is ended.
MAX_CALL_S = 20.0

Mutation = Callable[[random.Random, bytearray], bytearray]


def originals(dtypes: Iterable[torch.dtype]) -> list[tuple[str, torch.Tensor, bytes]]:
    """Return valid frames of all codecs and kinds of data: description, original, frame."""
    made = []
    for name in codecs.names():
        if codecs.unavailable_reason(name):
            continue
        for dtype in dtypes:
            for options in VARIANTS.get(name, [{}]):
                codec = codecs.get(name, **options)
                if not codec.supports(dtype):
                    continue
                for what, flat in conformance.distributions(NUMEL, dtype):
                    # Two dimensions make a header of 64 bytes, without padding.
                    values = flat.reshape(1, -1)
                    frame = wirezip.compress(values, codec).numpy().tobytes()
                    if name == "raw" or wirezip.inspect(as_frame(frame)).codec == name:
                        made.append((f"{name} {dtype_name(dtype)} {what} {options}", values, frame))
    return made


def as_frame(data: bytes | bytearray) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def with_header_check(data: bytearray) -> bytearray:
    """Return the frame with a header_check that fits its header, so that what lies behind is reached."""
    if len(data) >= 48:
        size = -(-(48 + 8 * data[7]) // 16) * 16
        data[HEADER_CHECK] = bytes(4)
        data[HEADER_CHECK] = struct.pack("<I", zlib.crc32(data[:size]))
    return data


def flip_bits(rng: random.Random, data: bytearray) -> bytearray:
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def set_bytes(rng: random.Random, data: bytearray) -> bytearray:
    for _ in range(rng.choice([1, 1, 2, 16])):
        data[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)])
    return data


def set_body_start(rng: random.Random, data: bytearray) -> bytearray:
    """Damage the first bytes of the body, where its own header and directory are."""
    for _ in range(rng.choice([1, 1, 2, 4])):
        data[min(len(data) - 1, 64 + rng.randrange(96))] = rng.choice([0, 1, 0x7F, 0xFF, rng.randrange(256)])
    return data


def set_integer(rng: random.Random, data: bytearray) -> bytearray:
    """Put an extreme integer at an aligned place in the first bytes of the body."""
    width = rng.choice([1, 2, 4, 8])
    at = 64 + rng.randrange(128) // width * width
    limit = 1 << 8 * width
    value = rng.choice([0, 1, limit - 1, limit // 2, limit // 2 - 1, limit - 16, rng.randrange(limit)])
    if at + width <= len(data):
        data[at : at + width] = value.to_bytes(width, "little")
    return data


def zero_range(rng: random.Random, data: bytearray) -> bytearray:
    start = rng.randrange(len(data))
    stop = min(len(data), start + rng.choice([4, 16, 64, 512]))
    data[start:stop] = bytes(stop - start)
    return data


def swap_ranges(rng: random.Random, data: bytearray) -> bytearray:
    size = rng.choice([1, 8, 24, 64])
    a, b = (rng.randrange(max(1, len(data) - size)) for _ in range(2))
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]
    return data


def truncate(rng: random.Random, data: bytearray) -> bytearray:
    return data[: rng.randrange(len(data))]


def truncate_body(rng: random.Random, data: bytearray) -> bytearray:
    """Shorten the body, or lengthen it, with a header that agrees."""
    body = len(data) - 64
    size = rng.choice([0, 1, body - 1, body - 16, body + 1, body + 16, rng.randrange(body + 1)])
    data = data[: 64 + max(0, size)].ljust(64 + max(0, size), bytes([rng.randrange(256)]))
    data[24:32] = struct.pack("<Q", len(data) - 64)
    return data


def extend(rng: random.Random, data: bytearray) -> bytearray:
    return data + rng.randbytes(rng.choice([1, 16, 100]))


def edit_header(rng: random.Random, data: bytearray) -> bytearray:
    """Set one field of the frame's header."""
    field = rng.randrange(7)
    if field == 0:
        data[6] = rng.choice([*DTYPES, rng.randrange(256)])
    elif field == 1:
        data[7] = rng.choice([0, 1, 2, 3, 64, 65, 255])
    elif field == 2:
        data[8:24] = rng.choice([*codecs.names(), "", "none", "\xff" * 16]).encode("latin-1").ljust(16, b"\0")
    elif field == 3:
        data[24:32] = struct.pack("<Q", rng.choice([0, 1, len(data) - 65, len(data), 2**40, 2**63, 2**64 - 1]))
    elif field == 4:
        data[40:44] = rng.randbytes(4)
    else:
        dims = [0, 1, NUMEL - 1, NUMEL + 1, 2 * NUMEL, 10**12 // 4, 2**31, 2**40, 2**62, 2**63, 2**64 - 1]
        data[48:64] = struct.pack("<2Q", rng.choice([1, 1, rng.choice(dims)]), rng.choice(dims))
    return data


def edit_checksum(rng: random.Random, data: bytearray) -> bytearray:
    data[32:40] = rng.randbytes(8)
    return data


def replace_body(rng: random.Random, data: bytearray) -> bytearray:
    data[64:] = rng.randbytes(len(data) - 64)
    return data


def twice(rng: random.Random, data: bytearray) -> bytearray:
    return set_integer(rng, set_bytes(rng, data))


MUTATIONS: list[Mutation] = [
    flip_bits,
    set_bytes,
    set_body_start,
    set_integer,
    zero_range,
    swap_ranges,
    truncate,
    truncate_body,
    extend,
    edit_header,
    edit_checksum,
    replace_body,
    twice,
]


class Watch:
    """What decoding damaged frames came to; records the sizes of tensors asked for meanwhile."""

    def __init__(self, progress: str) -> None:
        self.progress = os.open(progress, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.failures: list[str] = []
        self.num_decoded = 0
        self.slowest_cpu_s = 0.0
        self.largest_bytes = 0
        self._empty = torch.empty

    def empty(self, *size, **options) -> torch.Tensor:
        """Stand in for torch.empty; nothing these frames can justify is larger than the limit."""
        shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
        num_bytes = options.get("dtype", torch.float32).itemsize
        for dim in shape:
            num_bytes *= dim
        self.largest_bytes = max(self.largest_bytes, num_bytes)
        return self._empty(*size, **options)

    def decode(self, what: str, original: torch.Tensor | None, data: bytearray) -> None:
        """Decode a frame that may be damaged; the only outcomes allowed are an error or the original."""
        os.pwrite(self.progress, f"{what}: {bytes(data[:512]).hex()}".ljust(2000).encode(), 0)
        frame = as_frame(data)
        self.num_decoded += 1
        faulthandler.dump_traceback_later(MAX_CALL_S, exit=True)
        start = time.thread_time()
        try:
            decoded = wirezip.decompress(frame)
        except WirezipError as error:
            self.outcomes[type(error).__name__] += 1
            if not str(error).strip():
                self.failures.append(f"{what}: an error without a text")
        except BaseException:
            self.failures.append(f"{what}: {bytes(data[:256]).hex()}: {traceback.format_exc(limit=-3)}")
        else:
            self.compare(what, original, decoded)
        self.slowest_cpu_s = max(self.slowest_cpu_s, time.thread_time() - start)
        faulthandler.cancel_dump_traceback_later()

    def summary(self, **more: object) -> dict[str, object]:
        return {
            "decoded": self.num_decoded,
            "outcomes": self.outcomes,
            "failures": self.failures[:5],
            "num_failures": len(self.failures),
            "slowest_cpu_s": self.slowest_cpu_s,
            "largest_bytes": self.largest_bytes,
            **more,
        }

    def compare(self, what: str, original: torch.Tensor | None, decoded: torch.Tensor) -> None:
        self.outcomes["the original"] += 1
        if original is None or not self.is_original(original, decoded):
            self.failures.append(f"{what}: decoded to {decoded.dtype} {tuple(decoded.shape)} of other data")

    def is_original(self, original: torch.Tensor, decoded: torch.Tensor) -> bool:
        """Return whether these are the original bytes.

        A header forged whole, check included, may give them another dtype or shape, and more or fewer
        zeros at the end, which add nothing to a checksum: the header's own check guards those fields.
        """
        before, after = (conformance.octets(values).numpy().tobytes() for values in (original, decoded))
        if (decoded.dtype, decoded.shape) == (original.dtype, original.shape):
            return before == after
        self.outcomes["another dtype or shape"] += 1
        return before.rstrip(b"\0") == after.rstrip(b"\0")


def run_mutations(num_mutations: int, progress: str) -> dict[str, object]:
    """Decode damaged frames; every mutation meets every frame in turn."""
    frames = originals(FLOAT_FORMATS)
    watch = Watch(progress)
    # Everything is compiled and loaded before time and memory count.
    for what, values, frame in frames:
        if not watch.is_original(values, wirezip.decompress(as_frame(frame))):
            raise AssertionError(f"{what}: other data without any damage")
    torch.empty = watch.empty
    before = psutil.Process().memory_info().rss
    for number in range(num_mutations):
        what, values, frame = frames[number % len(frames)]
        mutation = MUTATIONS[number // len(frames) % len(MUTATIONS)]
        data = mutate(random.Random(SEED + number), mutation, frame)
        watch.decode(f"{number} {mutation.__name__} {what}", values, data)
    return watch.summary(grown_bytes=psutil.Process().memory_info().rss - before)


def mutate(rng: random.Random, mutation: Mutation, frame: bytes) -> bytearray:
    """Return a damaged frame, most often with a header_check that fits it."""
    data = mutation(rng, bytearray(frame))
    if rng.random() < 0.9:
        data = with_header_check(data)
    # A header forged to say that there is no checksum leaves nothing to check.
    if len(data) > 40 and not data[40] & 1:
        data[40] |= 1
        data = with_header_check(data)
    return data


def run_prefixes(progress: str) -> dict[str, object]:
    """Decode every prefix of a frame of each codec, and every prefix of its body under a header that fits."""
    watch = Watch(progress)
    rng = random.Random(SEED)
    watch.decode("nothing", None, bytearray())
    for size in (1, 4, 48, 64, 1024):
        for _ in range(50):
            watch.decode(f"{size} random bytes", None, bytearray(rng.randbytes(size)))
    seen = set()
    for what, _, frame in originals([torch.float32]):
        if what.split()[0] in seen or "short mantissas" not in what:
            continue
        seen.add(what.split()[0])
        for size in range(len(frame)):
            watch.decode(f"{size} bytes of {what}", None, bytearray(frame[:size]))
        for size in range(64, len(frame)):
            data = bytearray(frame[:size])
            data[24:32] = struct.pack("<Q", size - 64)
            watch.decode(f"body of {size - 64} bytes of {what}", None, with_header_check(data))
    return watch.summary(codecs=sorted(seen))


def main(mode: str, *arguments: str) -> None:
    """Run one mode and print its summary."""
    if mode == "mutations":
        print(json.dumps(run_mutations(int(arguments[0]), arguments[1])))
    else:
        print(json.dumps(run_prefixes(arguments[0])))


if __name__ == "__main__":
    faulthandler.enable()
    main(*sys.argv[1:])
