"""Make the golden frames: `python tests/codecs/make_golden.py` writes them anew.

Do that only when the format changes on purpose. Inputs come from integer arithmetic alone, so they
are the same whatever the versions of Python, NumPy and torch. The frames are made by the reference.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import wirezip
from wirezip import codecs
from wirezip.floats import FLOAT_FORMATS, FloatFormat, dtype_name, parse_dtype

FOLDER = Path(__file__).parent / "golden"
MANIFEST = FOLDER / "manifest.json"
TILE_ELEMS = 1024
OPTIONS: dict[str, dict[str, Any]] = {
    "raw": {},
    "window": {"tile_elems": TILE_ELEMS},
    "rans": {"tile_elems": TILE_ELEMS, "stream_elems": TILE_ELEMS},
}


@dataclass(frozen=True)
class Golden:
    """One golden frame: what it is made from, and by which codec."""

    codec: str
    dtype: torch.dtype
    kind: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> str:
        return f"{self.codec}-{dtype_name(self.dtype)}-{self.kind}.wzip"

    def tensor(self) -> torch.Tensor:
        return KINDS[self.kind](FLOAT_FORMATS[self.dtype])

    def frame(self, implementation: str) -> bytes:
        chosen = self.options if self.codec == "raw" else {**self.options, "implementation": implementation}
        return wirezip.compress(self.tensor(), codecs.get(self.codec, **chosen)).numpy().tobytes()


def bits(seed: int) -> Iterator[int]:
    """Yield 64-bit integers: splitmix64."""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        yield z ^ (z >> 31)


def skewed_word(form: FloatFormat, drawn: int) -> int:
    """Return a word that compresses: exponents just below the middle, mantissa bits mostly zero."""
    low = drawn & drawn >> 16 & 0xFFFF
    exponent = (1 << form.exponent_bits - 1) - 1 - min(trailing_ones(low), 7)
    kept_bits = min(form.mantissa_bits, 29)
    mantissa = drawn >> 32
    if form.word_bits == 8:
        mantissa &= drawn >> 40
    # float64 keeps low mantissa bits zero, as data that were float32 have.
    mantissa = mantissa % (1 << kept_bits) << form.mantissa_bits - kept_bits
    sign = drawn >> 62 & 1
    return sign << form.word_bits - 1 | exponent << form.mantissa_bits | mantissa


def trailing_ones(value: int) -> int:
    return (~value & value + 1).bit_length() - 1


def special_word(form: FloatFormat, number: int) -> int:
    """Return a zero, a subnormal, a tiny number, infinity, a NaN with a payload or the largest number."""
    top = (1 << form.exponent_bits) - 1
    exponent, mantissa = [(0, 0), (0, 1), (1, 5), (top, 0), (top, 5), (top - 1, -1)][number % 6]
    sign = number // 6 % 2
    return sign << form.word_bits - 1 | exponent << form.mantissa_bits | mantissa % (1 << form.mantissa_bits)


def as_tensor(form: FloatFormat, words: list[int], shape: tuple[int, ...]) -> torch.Tensor:
    octets = b"".join(word.to_bytes(form.word_bytes, "little") for word in words)
    return torch.frombuffer(bytearray(octets), dtype=torch.uint8).view(form.dtype).reshape(shape)


def mixture(form: FloatFormat) -> torch.Tensor:
    """Return a tile and a part of ordinary values with special ones among them.

    Those of the first tile leave the exponents in one span of 255, so that `rans` codes float64 too.
    """
    numel = 1300 if form.word_bits == 64 else 1500
    drawn = bits(form.word_bits * 64 + form.exponent_bits)
    words = [skewed_word(form, next(drawn)) for _ in range(numel)]
    for number, index in enumerate(range(50, numel, 97)):
        words[index] = special_word(form, number % 3 if index < TILE_ELEMS else number)
    return as_tensor(form, words, (2, numel // 2))


def tile_and_one(form: FloatFormat) -> torch.Tensor:
    """Return a tile that is seven eighths zero, of few mantissa bits, and a tile of one element."""
    drawn = bits(form.word_bits * 64 + form.exponent_bits + 1)
    keep = ~((1 << max(1, form.mantissa_bits - 2)) - 1)
    values = [next(drawn) for _ in range(TILE_ELEMS + 1)]
    words = [0 if value >> 61 else skewed_word(form, value) & keep for value in values]
    return as_tensor(form, words, (TILE_ELEMS + 1,))


KINDS = {"mixture": mixture, "tile_and_one": tile_and_one}


def goldens() -> list[Golden]:
    """Return all golden frames there should be."""
    return [
        Golden(name, dtype, kind, options)
        for name, options in OPTIONS.items()
        for dtype in FLOAT_FORMATS
        for kind in KINDS
    ]


def describe(golden: Golden, frame: bytes) -> dict[str, Any]:
    """Return the manifest entry of a frame."""
    return {
        "codec": golden.codec,
        "dtype": dtype_name(golden.dtype),
        "kind": golden.kind,
        "options": golden.options,
        "num_bytes": len(frame),
        "sha256": hashlib.sha256(frame).hexdigest(),
    }


def read_manifest() -> dict[str, Golden]:
    """Return the golden frames that the manifest lists, by file."""
    listed = json.loads(MANIFEST.read_text())
    return {
        file: Golden(entry["codec"], parse_dtype(entry["dtype"]), entry["kind"], entry["options"])
        for file, entry in listed.items()
    }


def main() -> None:
    """Write all frames and the manifest."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        path.unlink()
    manifest = {}
    for golden in goldens():
        frame = golden.frame("reference")
        (FOLDER / golden.file).write_bytes(frame)
        manifest[golden.file] = describe(golden, frame)
    MANIFEST.write_text(json.dumps(manifest, indent=1) + "\n")
    print(f"{len(manifest)} frames, {sum(entry['num_bytes'] for entry in manifest.values())} bytes, in {FOLDER.name}")


if __name__ == "__main__":
    main()
