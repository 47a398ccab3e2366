"""The vector code of a decoder's group equals the scalar code, whatever states, table and words there are."""

import numpy as np
import pytest

from wirezip.codecs.rans import cpu_simd, cpu_streams, reference, tables
from wirezip.codecs.tiles.cpu import jit


@jit
def scalar(symbols, states, slots, words, end, prob_bits):
    return cpu_streams._decode_group(symbols, states, slots, words, end, prob_bits)


@pytest.mark.skipif(not cpu_simd.is_available(), reason="this CPU has no AVX-512 with VBMI2")
@pytest.mark.parametrize("prob_bits", [9, 11, 12])
def test_vector_group_equals_scalar(prob_bits):
    @jit
    def vector(symbols, states, slots, words, end, prob_bits):
        return cpu_simd.decode_group(symbols, states, slots, words, end, prob_bits)

    generator = np.random.default_rng(0)
    table = reference.build_table(generator.geometric(0.3, 5000).astype(np.int64), prob_bits)
    slots = np.zeros(1 << prob_bits, np.uint32)
    cpu_streams.fill_decoder(table.frequencies, prob_bits, slots)
    words = generator.integers(0, 1 << 16, 400).astype(np.uint16)
    for trial in range(200):
        # States below the interval take a word in every step: more than a valid stream ever does.
        states = generator.integers(0, 1 << (16 if trial % 2 else 31), 32).astype(np.uint32)
        results = []
        for function in (scalar, vector):
            symbols, left = np.zeros(tables.GROUP_ELEMS, np.uint8), states.copy()
            end = function(symbols, left, slots, words, np.uint64(300), np.uint64(prob_bits))
            results.append((symbols.tolist(), left.tolist(), int(end)))
        assert results[0] == results[1]
