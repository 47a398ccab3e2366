"""The decoder's step for CPUs with AVX-512: 16 lanes to a vector, states kept in registers for a group.

LLVM does not vectorise the scalar loop, because where a lane's word lies depends on the lanes after
it; an expanding load deals consecutive words to the lanes that want one. The results are those of
the scalar loop to the bit.
"""

from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from wirezip.codecs.rans.tables import LANE_RUN, NUM_LANES, STATE_MIN, WORD_BITS

LANES = 16
NEEDED_FEATURES = ("avx512f", "avx512bw", "avx512vl", "avx512vbmi2")

_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_STATES = ir.VectorType(_I32, LANES)
_WORDS = ir.VectorType(_I16, LANES)
_MASK = ir.VectorType(ir.IntType(1), LANES)


def is_available() -> bool:
    """Return whether this machine's CPU has the instructions."""
    features = llvmlite.binding.get_host_cpu_features()
    return all(features.get(name, False) for name in NEEDED_FEATURES)


def _splat(builder: ir.IRBuilder, value: int | ir.Value) -> ir.Value:
    if isinstance(value, int):
        return ir.Constant(_STATES, [value] * LANES)
    one = builder.insert_element(ir.Constant(_STATES, ir.Undefined), value, _I32(0))
    zeros = ir.Constant(_STATES, [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(_STATES, ir.Undefined), zeros)


def _at(builder: ir.IRBuilder, data: ir.Value, element: ir.Type, index: int) -> ir.Value:
    """Return a pointer to 16 lanes at an element of an array."""
    return builder.bitcast(builder.gep(data, [_I64(index)], source_etype=element), _STATES.as_pointer())


class _Group:
    """Emits the code of one group of 128 elements."""

    def __init__(self, builder: ir.IRBuilder, slots: ir.Value, words: ir.Value, prob_bits: ir.Value) -> None:
        self.builder, self.slots, self.words = builder, slots, words
        module = builder.module
        pointer = ir.PointerType()
        self.gather = cgutils.get_or_insert_function(
            module,
            ir.FunctionType(_STATES, [_STATES, pointer, _STATES, _MASK, _I32]),
            "llvm.x86.avx512.mask.gather.dpi.512",
        )
        self.expand = cgutils.get_or_insert_function(
            module, ir.FunctionType(_WORDS, [pointer, _MASK, _WORDS]), "llvm.masked.expandload.v16i16"
        )
        self.bits = _splat(builder, builder.trunc(prob_bits, _I32))
        one = _splat(builder, 1)
        self.slot_mask = builder.sub(builder.shl(one, self.bits), one)

    def step(self, states: ir.Value, end: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Return the symbols of 16 lanes, their next states and the end of the words left."""
        builder = self.builder
        slot = builder.and_(states, self.slot_mask)
        everywhere = ir.Constant(_MASK, [1] * LANES)
        packed = builder.call(self.gather, [_splat(builder, 0), self.slots, slot, everywhere, _I32(4)])
        frequency = builder.and_(builder.lshr(packed, _splat(builder, 8)), _splat(builder, 0xFFF))
        states = builder.mul(frequency, builder.lshr(states, self.bits))
        states = builder.add(states, builder.lshr(packed, _splat(builder, 20)))
        empty = builder.icmp_unsigned("<", states, _splat(builder, STATE_MIN))
        count = builder.ctpop(builder.bitcast(empty, _I16))
        end = builder.sub(end, builder.zext(count, _I64))
        start = builder.gep(self.words, [end], source_etype=_I16)
        taken = builder.call(self.expand, [start, empty, ir.Constant(_WORDS, [0] * LANES)])
        refilled = builder.or_(builder.shl(states, _splat(builder, WORD_BITS)), builder.zext(taken, _STATES))
        return builder.and_(packed, _splat(builder, 0xFF)), builder.select(empty, refilled, states), end


@intrinsic
def decode_group(typingctx: Any, symbols: Any, states: Any, slots: Any, words: Any, end: Any, prob_bits: Any) -> Any:
    """Decode a whole group into `symbols`, 128 bytes; returns the end of the words left.

    `states` are 32 uint32 and are updated; `words` has at least 128 words that may be read before
    any end that a valid stream reaches.
    """
    signature = types.uint64(symbols, states, slots, words, types.uint64, types.uint64)

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        data = [
            cgutils.create_struct_proxy(kind)(context, builder, value=value).data
            for kind, value in zip(signature.args[:4], arguments[:4], strict=True)
        ]
        group = _Group(builder, data[2], data[3], arguments[5])
        end = arguments[4]
        halves = range(NUM_LANES // LANES)
        places = [_at(builder, data[1], _I32, half * LANES) for half in halves]
        states = [builder.load(place, align=4) for place in places]
        runs = [_splat(builder, 0) for _ in halves]
        for turn in reversed(range(LANE_RUN)):
            for half in reversed(halves):
                decoded, states[half], end = group.step(states[half], end)
                runs[half] = builder.or_(runs[half], builder.shl(decoded, _splat(builder, 8 * turn)))
        for half in halves:
            builder.store(states[half], places[half], align=4)
            builder.store(runs[half], _at(builder, data[0], _I8, half * LANES * LANE_RUN), align=1)
        return end

    return signature, emit
