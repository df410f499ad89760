"""Vector registers for compiled code: a few numbers side by side, worked on as one.

LLVM's own vectorisers miss the loops that matter here: a strip of scores that stays in registers
while the rows of a matrix stream past. A value of the type `Lanes` is a number of registers, each
an LLVM vector; `zeros` takes their number as a constant, and all else follows the types.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

#: Bytes of the unit in which strips are padded: the vector register of most machines today.
REGISTER = 32


def lanes_of(dtype: np.dtype | type) -> int:
    """How many numbers of this type make one register."""
    return REGISTER // np.dtype(dtype).itemsize


def stride_of(count: int, dtype: np.dtype | type) -> int:
    """`count` numbers rounded up to whole registers."""
    unit = lanes_of(dtype)
    return -(-count // unit) * unit


def aligned_zeros(size: int, dtype: np.dtype | type) -> np.ndarray:
    """Zeros that begin at a cache line of their own.

    No register is then loaded from two lines, and no two threads write to one.
    """
    line = 64
    space = np.zeros(size * np.dtype(dtype).itemsize + line, dtype=np.uint8)
    start = -space.ctypes.data % line
    return space[start : start + size * np.dtype(dtype).itemsize].view(dtype)


def aligned_copy(vector: np.ndarray, dtype: np.dtype | type | None = None) -> np.ndarray:
    """The same, of another type if one is given, where a cache line begins."""
    copy = aligned_zeros(len(vector), vector.dtype if dtype is None else dtype)
    copy[:] = vector
    return copy


class Lanes(types.Type):
    """Numba's type of some registers of numbers of one type."""

    def __init__(self, dtype: types.Type, registers: int) -> None:
        self.dtype = dtype
        self.registers = registers
        self.unit = REGISTER * 8 // dtype.bitwidth
        super().__init__(name=f"Lanes({dtype} x {self.unit} x {registers})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        register = ir.VectorType(dmm.lookup(fe_type.dtype).get_value_type(), fe_type.unit)
        super().__init__(dmm, fe_type, ir.ArrayType(register, fe_type.registers))


def _pointer(context, builder, array_type, array, start, kind):
    """Where array[start] lies, as a pointer to `kind`; the caller answers for the bounds."""
    view = context.make_array(array_type)(context, builder, array)
    return builder.bitcast(builder.gep(view.data, [start]), kind.as_pointer())


def _spread(builder, number, vector):
    """A vector with `number` in all lanes."""
    index = ir.IntType(32)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), number, index(0))
    mask = ir.Constant(ir.VectorType(index, vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), mask)


def _each(builder, operate, *lanes):
    """A value of the same type as `lanes`, register by register."""
    result = ir.Constant(lanes[0].type, ir.Undefined)
    for k in range(lanes[0].type.count):
        registers = (builder.extract_value(value, k) for value in lanes)
        result = builder.insert_value(result, operate(*registers), k)
    return result


def _places(context, builder, lanes, array_type, array, start):
    """Pointers to consecutive registers of an array, beginning at array[start]."""
    register = context.get_value_type(lanes).element
    first = _pointer(context, builder, array_type, array, start, register)
    return [builder.gep(first, [ir.IntType(32)(k)]) for k in range(lanes.registers)]


@intrinsic(prefer_literal=True)
def zeros(typing, array, registers):
    """Zeros of the type of `array` in a constant number of registers."""
    lanes = Lanes(array.dtype, registers.literal_value)

    def generate(context, builder, signature, args):
        return ir.Constant(context.get_value_type(lanes), None)

    return lanes(array, registers), generate


@intrinsic
def width(typing, lanes):
    """How many lanes there are."""

    def generate(context, builder, signature, args):
        return context.get_constant(types.intp, lanes.unit * lanes.registers)

    return types.intp(lanes), generate


@intrinsic
def load(typing, like, array, start):
    """array[start : start + lanes], as many lanes as `like` has."""

    def generate(context, builder, signature, args):
        result = ir.Constant(context.get_value_type(like), ir.Undefined)
        for k, place in enumerate(_places(context, builder, like, array, *args[1:])):
            register = builder.load(place, align=array.dtype.bitwidth // 8)
            result = builder.insert_value(result, register, k)
        return result

    return like(like, array, types.intp), generate


@intrinsic
def store(typing, lanes, array, start):
    """array[start : start + lanes] = lanes."""

    def generate(context, builder, signature, args):
        for k, place in enumerate(_places(context, builder, lanes, array, *args[1:])):
            register = builder.extract_value(args[0], k)
            builder.store(register, place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(lanes, array, types.intp), generate


@intrinsic
def add(typing, a, b):
    """A + b, lane by lane."""

    def generate(context, builder, signature, args):
        return _each(builder, lambda x, y: builder.fadd(x, y, flags=("fast",)), *args)

    return a(a, b), generate


@intrinsic
def shift(typing, a, number):
    """A + number in each lane."""

    def generate(context, builder, signature, args):
        same = _spread(builder, args[1], args[0].type.element)
        return _each(builder, lambda x: builder.fadd(x, same, flags=("fast",)), args[0])

    return a(a, a.dtype), generate


@intrinsic
def multiply_add(typing, a, number, b):
    """A * number + b, lane by lane."""

    def generate(context, builder, signature, args):
        register = args[0].type.element
        fmuladd = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(register, [register] * 3),
            f"llvm.fmuladd.v{register.count}f{a.dtype.bitwidth}",
        )
        same = _spread(builder, args[1], register)
        return _each(builder, lambda x, y: builder.call(fmuladd, [x, same, y]), args[0], args[2])

    return a(a, a.dtype, b), generate


@intrinsic
def multiply(typing, a, b):
    """A * b, lane by lane."""

    def generate(context, builder, signature, args):
        return _each(builder, lambda x, y: builder.fmul(x, y, flags=("fast",)), *args)

    return a(a, b), generate


@intrinsic
def divide(typing, a, b):
    """A / b, lane by lane."""

    def generate(context, builder, signature, args):
        return _each(builder, builder.fdiv, *args)

    return a(a, b), generate


@intrinsic
def total(typing, a):
    """The sum of all lanes."""

    def generate(context, builder, signature, args):
        registers = [builder.extract_value(args[0], k) for k in range(a.registers)]
        while len(registers) > 1:
            registers[-2:] = [builder.fadd(*registers[-2:], flags=("fast",))]
        index, result = ir.IntType(32), None
        for lane in range(a.unit):
            number = builder.extract_element(registers[0], index(lane))
            result = builder.fadd(result, number, flags=("fast",)) if result else number
        return result

    return a.dtype(a), generate


#: Of the exponential function by type: bits of the fraction, the least argument whose result is a
#: normal number, and ln 2 in two parts of which the first has zeros at its end.
_EXPONENTIAL = {
    64: (52, -708.0, 6.93147180369123816490e-01, 1.90821492927058770002e-10, 13),
    32: (23, -87.0, 6.93359375e-01, -2.12194440e-4, 8),
}


@intrinsic
def exponential(typing, a):
    """e to the power of a, which must not be large; 0 where that is no normal number.

    With a = n ln 2 + r, Taylor's series in r, |r| <= ln 2 / 2, is multiplied by 2^n through the
    bits of the exponent. Adding 1.5 * 2^bits rounds to an integer and leaves n in the last bits.
    """
    bits, least, high, low, terms = _EXPONENTIAL[a.dtype.bitwidth]

    def generate(context, builder, signature, args):
        register = args[0].type.element
        integers = ir.VectorType(ir.IntType(a.dtype.bitwidth), a.unit)
        fmuladd = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(register, [register] * 3),
            f"llvm.fmuladd.v{a.unit}f{a.dtype.bitwidth}",
        )

        def same(number):
            return ir.Constant(register, [number] * a.unit)

        def power(x):  # without fast flags: they would undo the two steps of n ln 2
            rounded = builder.call(fmuladd, [x, same(1.0 / math.log(2.0)), same(1.5 * 2.0**bits)])
            n = builder.fsub(rounded, same(1.5 * 2.0**bits))
            r = builder.call(fmuladd, [n, same(-high), x])
            r = builder.call(fmuladd, [n, same(-low), r])
            series = same(1.0 / math.factorial(terms - 1))
            for k in range(terms - 2, -1, -1):
                series = builder.call(fmuladd, [series, r, same(1.0 / math.factorial(k))])
            shift = ir.Constant(integers, [bits] * a.unit)
            exponent = builder.shl(builder.bitcast(rounded, integers), shift)
            result = builder.add(builder.bitcast(series, integers), exponent)
            tiny = builder.fcmp_ordered("<", x, same(least))
            return builder.select(tiny, same(0.0), builder.bitcast(result, register))

        return _each(builder, power, args[0])

    return a(a), generate


@intrinsic
def maximum(typing, a, b):
    """The larger of a and b, lane by lane."""

    def generate(context, builder, signature, args):
        def larger(x, y):
            return builder.select(builder.fcmp_ordered(">", x, y, flags=("fast",)), x, y)

        return _each(builder, larger, *args)

    return a(a, b), generate


@intrinsic
def prefetch(typing, array, start):
    """Ask for the cache line of array[start], which will be read soon."""

    def generate(context, builder, signature, args):
        place = _pointer(context, builder, array, args[0], args[1], ir.IntType(8))
        number = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number]),
            "llvm.prefetch.p0",
        )
        builder.call(function, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def unit_of(typing, array):
    """The relative distance of the numbers of an array from the next ones.

    Compiling `np.finfo` takes a tenth of a second, in each process.
    """
    unit = float(np.finfo(str(array.dtype)).eps)

    def generate(context, builder, signature, args):
        return context.get_constant(types.float64, unit)

    return types.float64(array), generate
