"""Explicit vector instructions for kernels: eight 64-bit words tested at once, prefetch, the cycle counter.

UNTRUSTED side, pure. LLVM does not vectorise a search with an early exit by itself; written as vectors it becomes one
load and one test a step, with whatever width the processor has (AVX-512, AVX2, NEON).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_vector: Any = intrinsic  # typed so, kernels may call what it makes
_I8 = ir.IntType(8)
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


_declare: Any = cgutils.get_or_insert_function
_variable: Any = cgutils.alloca_once_value
_steps: Any = cgutils.for_range_slice


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    vector = ir.VectorType(value.type, lanes)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes))


def _address(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [offset])


@_vector
def included8(typing_context: Any, array: Any, offset: Any, absent: Any) -> Any:
    """Bit i: ``array[offset + i] & absent == 0`` for i < 8, 64-bit words. ``offset + 8`` is in bounds."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(_I64, 8)
        pointer = _address(context, builder, signature.args[0], args[0], args[1])
        words = builder.load(builder.bitcast(pointer, vector.as_pointer()), align=8)
        missing = builder.and_(words, _splat(builder, args[2], 8))
        clear = builder.icmp_unsigned("==", missing, ir.Constant(vector, [0] * 8))
        return builder.zext(builder.bitcast(clear, _I8), _I32)

    return types.uint32(array, types.int64, types.uint64), generate


@_vector
def has_four(typing_context: Any, positions: Any, offset: Any, present: Any) -> Any:
    """``present`` (bytes 0 or 1) at the four 16-bit ``positions[offset:offset + 4]``, AND of all; one load for four."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _address(context, builder, signature.args[0], args[0], args[1])
        four = builder.load(builder.bitcast(pointer, _I64.as_pointer()), align=2)
        result = ir.Constant(_I8, 1)
        for place in range(4):
            moved = builder.lshr(four, ir.Constant(_I64, 16 * place))
            position = builder.and_(moved, ir.Constant(_I64, 0xFFFF))
            byte = builder.load(_address(context, builder, signature.args[2], args[2], position))
            result = builder.and_(result, byte)
        return result

    return types.uint8(positions, types.int64, present), generate


def _count_from(builder: Any, base: Any) -> Any:
    """``base``, ``base + 1``, ... in eight lanes."""
    lanes = _splat(builder, builder.trunc(base, _I32), 8)
    return builder.add(lanes, ir.Constant(ir.VectorType(_I32, 8), list(range(8))))


def _store_eight(context: Any, builder: Any, array_type: Any, array: Any, offset: Any, lanes: Any) -> None:
    pointer = _address(context, builder, array_type, array, offset)
    builder.store(lanes, builder.bitcast(pointer, lanes.type.as_pointer()), align=4)


@_vector
def put_run(typing_context: Any, out: Any, used: Any, base: Any) -> Any:
    """``out[used:used + 8] = base + 0..7``, 32-bit; ``used + 8`` is in bounds."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _store_eight(context, builder, signature.args[0], args[0], args[1], _count_from(builder, args[2]))
        return context.get_dummy_value()

    return types.void(out, types.int64, types.int64), generate


@_vector
def put_places(typing_context: Any, out: Any, used: Any, base: Any, hits: Any) -> Any:
    """Append ``base + i`` for every bit i < 8 of ``hits`` without a branch; the new ``used``.

    Eight lanes are written whatever ``hits`` says: ``used + 8`` is in bounds.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(_I32, 8)
        flags = ir.VectorType(ir.IntType(1), 8)
        chosen = builder.bitcast(builder.trunc(args[3], _I8), flags)
        kind = ir.FunctionType(vector, [vector, flags, vector])
        compress = _declare(builder.module, kind, "llvm.experimental.vector.compress.v8i32")
        undefined = ir.Constant(vector, ir.Undefined)
        packed = builder.call(compress, [_count_from(builder, args[2]), chosen, undefined])
        _store_eight(context, builder, signature.args[0], args[0], args[1], packed)
        return builder.add(args[1], builder.zext(builder.ctpop(args[3]), _I64))

    return types.int64(out, types.int64, types.int64, types.uint32), generate


@_vector
def prefetch(typing_context: Any, array: Any, offset: Any) -> Any:
    """Ask for the cache line of ``array[offset]`` before it is needed."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.bitcast(_address(context, builder, signature.args[0], args[0], args[1]), _I8.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
        function = _declare(builder.module, kind, "llvm.prefetch.p0i8")
        read, keep, data = (ir.Constant(_I32, value) for value in (0, 3, 1))
        builder.call(function, [pointer, read, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@_vector
def lowest_bit(typing_context: Any, mask: Any) -> Any:
    """Number of the lowest set bit of a non-zero 32-bit mask."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(builder.cttz(args[0], ir.Constant(ir.IntType(1), 1)), _I64)

    return types.int64(types.uint32), generate


@_vector
def lowest_of(typing_context: Any, word: Any) -> Any:
    """Number of the lowest set bit of a non-zero 64-bit word."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@_vector
def count_common(typing_context: Any, array: Any, offset: Any, other: Any, words: Any) -> Any:
    """Set bits of ``array[offset + i] & other[i]`` over i < ``words``, which is a multiple of 8."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(_I64, 8)
        zero = ir.Constant(_I64, 0)
        left = _address(context, builder, signature.args[0], args[0], args[1])
        right = _address(context, builder, signature.args[2], args[2], zero)
        ones = _declare(builder.module, ir.FunctionType(vector, [vector]), "llvm.ctpop.v8i64")
        total = _variable(builder, ir.Constant(vector, [0] * 8))
        with _steps(builder, zero, args[3], ir.Constant(_I64, 8)) as (at, _):
            pair = [builder.bitcast(builder.gep(side, [at]), vector.as_pointer()) for side in (left, right)]
            common = builder.and_(*(builder.load(pointer, align=8) for pointer in pair))
            builder.store(builder.add(builder.load(total), builder.call(ones, [common])), total)
        added = _declare(builder.module, ir.FunctionType(_I64, [vector]), "llvm.vector.reduce.add.v8i64")
        return builder.call(added, [builder.load(total)])

    return types.int64(array, types.int64, other, types.int64), generate


@_vector
def cycles(typing_context: Any) -> Any:
    """The processor's cycle counter, for latencies of single messages inside a compiled loop."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = _declare(builder.module, ir.FunctionType(_I64, []), "llvm.readcyclecounter")
        return builder.call(function, [])

    return types.int64(), generate
