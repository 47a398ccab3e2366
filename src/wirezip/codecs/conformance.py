"""The conformance kit: checks that any codec must pass, whoever wrote it.

Each check takes a codec and a dtype it supports and raises `ConformanceError` with what was wrong.
`CHECKS` lists those for every codec, `LOSSLESS_CHECKS` those for codecs that claim to be lossless.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

from wirezip.codecs.base import Codec
from wirezip.errors import CodecError, FrameError, InputError, WirezipError

SIZES = (1, 2, 7, 63, 1023, 1024, 1025, 1823, 8191, 8192, 8193)
GUARD_BYTES = 64
POISON = 0xA5


class ConformanceError(WirezipError, AssertionError):
    """A codec broke its contract."""


def require(condition: bool, text: str) -> None:
    """Raise ConformanceError with `text` unless the condition holds."""
    if not condition:
        raise ConformanceError(text)


def octets(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a contiguous tensor."""
    return tensor.reshape(-1).view(torch.uint8)


def distributions(numel: int, dtype: torch.dtype, seed: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield named tensors of one size that together exercise every kind of tile."""
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(numel, generator=generator)
    spread = normal * 10 ** (3 * torch.randn(numel, generator=generator))
    kept = torch.rand(numel, generator=generator) < 0.5
    yield "normal", normal.to(dtype)
    yield "random bits", random_bits(numel, dtype, generator)
    yield "zeros", torch.zeros(numel).to(dtype)
    yield "one constant", torch.full((numel,), -1.7).to(dtype)
    yield "half zero, wide range", (spread * kept).to(dtype)
    yield "short mantissas", normal.to(torch.float8_e5m2).float().to(dtype)
    yield "ramp", torch.linspace(-2.0, 2.0, numel).to(dtype)
    yield "signed zeros", torch.where(kept, torch.zeros(numel), -torch.zeros(numel)).to(dtype)
    yield "one outlier", torch.cat([torch.ones(numel - 1), torch.full((1,), 1e-4)]).to(dtype)


def random_bits(numel: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Return a tensor of uniformly random bytes."""
    raw = torch.randint(0, 256, (numel * dtype.itemsize,), dtype=torch.uint8, generator=generator)
    return raw.view(dtype)


def every_pattern(dtype: torch.dtype) -> torch.Tensor:
    """Return all bit patterns of an 8- or 16-bit dtype, and the edges of each field of a wider one."""
    bits = 8 * dtype.itemsize
    if bits <= 16:
        patterns = torch.arange(2**bits, dtype=torch.int32)
        return patterns.to(torch.uint8).view(dtype) if bits == 8 else patterns.to(torch.int16).view(dtype)
    single = [1 << bit for bit in range(bits)]
    near = [value + step for value in single for step in (-1, 1)] + [a | b for a in single for b in single]
    limit = 1 << bits
    signed = [value % limit - (limit if value % limit >= limit // 2 else 0) for value in [0, -1, *single, *near]]
    return torch.tensor(signed, dtype=torch.int32 if bits == 32 else torch.int64).view(dtype)


def decode_guarded(codec: Codec, body: torch.Tensor, numel: int, dtype: torch.dtype) -> torch.Tensor:
    """Decode into poisoned memory and check that nothing around the output was written."""
    memory = torch.full((2 * GUARD_BYTES + numel * dtype.itemsize,), POISON, dtype=torch.uint8)
    out = memory[GUARD_BYTES : GUARD_BYTES + numel * dtype.itemsize].view(dtype)
    codec.decode(body, out)
    guards = torch.cat([memory[:GUARD_BYTES], memory[GUARD_BYTES + numel * dtype.itemsize :]])
    require(bool((guards == POISON).all()), f"{codec.name}: decode of {numel} {dtype} wrote outside its output")
    return out


def check_bound(codec: Codec, dtype: torch.dtype) -> None:
    """The body stays within its bounds, and nothing is written beyond the largest."""
    for numel in SIZES:
        most = codec.max_encoded_bytes(numel, dtype)
        for name, values in distributions(numel, dtype):
            out = torch.full((most + GUARD_BYTES,), POISON, dtype=torch.uint8)
            used = codec.encode(values, out).numel()
            where = f"{codec.name}: {numel} {dtype}, {name}"
            require(used <= most, f"{where}: {used} bytes, bound {most}")
            require(used >= codec.min_encoded_bytes(numel, dtype), f"{where}: {used} bytes, below its floor")
            require(bool((out[most:] == POISON).all()), f"{where}: encode wrote beyond {most} bytes")


def check_input_unchanged(codec: Codec, dtype: torch.dtype) -> None:
    """Encoding leaves the input as it was."""
    for name, values in distributions(8193, dtype):
        before = octets(values).clone()
        codec.encode(values)
        require(torch.equal(octets(values), before), f"{codec.name}: encode changed its input, {dtype} {name}")


def check_deterministic(codec: Codec, dtype: torch.dtype) -> None:
    """The same input makes the same body, in whatever memory and thread."""
    for name, values in distributions(9000, dtype):
        first = codec.encode(values)
        dirty = torch.full((codec.max_encoded_bytes(9000, dtype),), POISON, dtype=torch.uint8)
        require(torch.equal(codec.encode(values, dirty), first), f"{codec.name}: two bodies of one {dtype} {name}")
        with ThreadPoolExecutor(4) as pool:
            for body in pool.map(codec.encode, [values] * 4):
                require(torch.equal(body, first), f"{codec.name}: threads make other bodies, {dtype} {name}")


def check_bad_arguments(codec: Codec, dtype: torch.dtype) -> None:
    """Arguments that break the contract are refused with a wirezip error."""
    values = torch.zeros(64).to(dtype)
    too_small = torch.empty(max(0, codec.max_encoded_bytes(64, dtype) - 1), dtype=torch.uint8)
    wrong_kind = torch.empty(codec.max_encoded_bytes(64, dtype), dtype=torch.int8)
    attempts: dict[str, Callable[[], object]] = {
        "a strided tensor": lambda: codec.encode(values[::2]),
        "a 2-D tensor": lambda: codec.encode(values.view(8, 8)),
        "an empty tensor": lambda: codec.encode(values[:0]),
        "too small an output": lambda: codec.encode(values, too_small),
        "an output of int8": lambda: codec.encode(values, wrong_kind),
    }
    for what, attempt in attempts.items():
        try:
            attempt()
        except (InputError, CodecError):
            continue
        raise ConformanceError(f"{codec.name}: {what} was accepted ({dtype})")


def check_damage(codec: Codec, dtype: torch.dtype) -> None:
    """Damaged bodies are refused or decode to something, inside the output."""
    generator = torch.Generator().manual_seed(1)
    for _, values in distributions(2500, dtype):
        body = codec.encode(values)
        for trial in range(24):
            damaged = body.clone()
            if trial % 3 == 0:
                damaged = damaged[: int(torch.randint(body.numel(), (1,), generator=generator))]
            else:
                spots = torch.randint(body.numel(), (1 + trial % 5,), generator=generator)
                damaged[spots] = torch.randint(0, 256, spots.shape, dtype=torch.uint8, generator=generator)
            try:
                decode_guarded(codec, damaged, 2500, dtype)
            except FrameError:
                continue


def check_other_count(codec: Codec, dtype: torch.dtype) -> None:
    """A body of one count, decoded as a larger one, is refused or fills the whole output."""
    for name, values in distributions(2500, dtype):
        body = codec.encode(values)
        outputs = []
        for poison in (POISON, POISON ^ 0xFF):
            out = torch.full((5000 * dtype.itemsize,), poison, dtype=torch.uint8)
            try:
                codec.decode(body, out.view(dtype))
            except FrameError:
                break
            outputs.append(out)
        filled = len(outputs) < 2 or torch.equal(*outputs)
        require(filled, f"{codec.name}: 2500 {dtype} ({name}) decoded as 5000 leave some of them as they were")


def check_large_constant(codec: Codec, dtype: torch.dtype) -> None:
    """A constant of 4 Mi elements takes no less than the floor that decoders refuse bodies by."""
    values = torch.ones(1 << 22).to(dtype)
    used, least = codec.encode(values).numel(), codec.min_encoded_bytes(1 << 22, dtype)
    require(used >= least, f"{codec.name}: 4 Mi constants of {dtype} take {used} bytes, below the floor of {least}")


def check_truncation(codec: Codec, dtype: torch.dtype) -> None:
    """No proper prefix of a body is accepted."""
    values = dict(distributions(2500, dtype))["normal"]
    body = codec.encode(values)
    for length in {0, 1, body.numel() // 2, body.numel() - 1}:
        try:
            decode_guarded(codec, body[:length].clone(), 2500, dtype)
        except FrameError:
            continue
        raise ConformanceError(f"{codec.name}: accepted {length} of {body.numel()} bytes ({dtype})")


def check_round_trip(codec: Codec, dtype: torch.dtype) -> None:
    """Every bit comes back, for all sizes, distributions and bit patterns."""
    for numel in SIZES:
        for name, values in distributions(numel, dtype):
            require_same(codec, values, name)
    require_same(codec, every_pattern(dtype), "every pattern")


def require_same(codec: Codec, values: torch.Tensor, name: str) -> None:
    """Round-trip a tensor; raise ConformanceError naming the first element that differs."""
    decoded = decode_guarded(codec, codec.encode(values), values.numel(), values.dtype)
    before, after = (octets(t).view(values.numel(), -1) for t in (values, decoded))
    wrong = (before != after).any(dim=1).nonzero()
    if len(wrong):
        i = int(wrong[0])
        raise ConformanceError(
            f"{codec.name}: {values.numel()} {values.dtype}, {name}: element {i} of {len(wrong)} wrong ones was "
            f"{bytes(before[i].tolist()).hex()} and came back as {bytes(after[i].tolist()).hex()}"
        )


Check = Callable[[Codec, torch.dtype], None]
CHECKS: tuple[Check, ...] = (
    check_bound,
    check_input_unchanged,
    check_deterministic,
    check_bad_arguments,
    check_damage,
    check_truncation,
    check_other_count,
    check_large_constant,
)
LOSSLESS_CHECKS: tuple[Check, ...] = (check_round_trip,)
