"""Decimal numbers as the nearest float64, in compiled code.

Numbers of at most 19 digits are multiplied by a power of ten of 128 bits, after D. Lemire, "Number
parsing at a gigabyte per second" (Software: Practice and Experience 51, 2021). The few that this
cannot decide, and longer ones, are left to Python.
"""

from __future__ import annotations

import numpy as np

from taut.compiled import jit

_SMALLEST, _LARGEST = -342, 308  # powers of ten of which products are normal numbers
_DIGITS = 19  # as many as 64 bits hold
_FAR = 99_999  # an exponent that no product comes back from
_WHOLE = 2**53  # up to which all integers are float64

# What `number` found.
DONE, LEFT, FAULT, NOT_FINITE = 0, 1, 2, 3

_ZERO, _ONE, _TEN = np.uint64(0), np.uint64(1), np.uint64(10)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ROUNDING = np.uint64(0x1FF)
_FRACTION = np.uint64(0x000FFFFFFFFFFFFF)
_SIGN = np.uint64(1 << 63)
_STEPS = tuple((np.uint64(1 << (64 - n)), np.uint64(n)) for n in (32, 16, 8, 4, 2, 1))


def _power(exponent: int) -> int:
    """The first 128 bits of a power of ten."""
    if exponent >= 0:
        power = 10**exponent
        shift = power.bit_length() - 128
        return power >> shift if shift >= 0 else power << -shift
    power = 10**-exponent
    return (1 << (127 + power.bit_length())) // power


_POWERS = [_power(exponent) for exponent in range(_SMALLEST, _LARGEST + 1)]
_HIGH_BITS = np.array([power >> 64 for power in _POWERS], dtype=np.uint64)
_LOW_BITS = np.array([power & (2**64 - 1) for power in _POWERS], dtype=np.uint64)


@jit.helper
def _product(a, b):
    """The two halves of a product of 64 bits by 64 bits."""
    a_low, a_high = a & _LOW, a >> _HALF
    b_low, b_high = b & _LOW, b >> _HALF
    low = a_low * b_low
    middle = a_high * b_low + (low >> _HALF)
    rest = a_low * b_high + (middle & _LOW)
    return a_high * b_high + (middle >> _HALF) + (rest >> _HALF), a * b


@jit.helper
def _nearest(digits, exponent):
    """The bits of the float64 next to digits * 10^exponent, and whether they are sure."""
    zeros = np.int64(0)
    mantissa = digits
    for least, step in _STEPS:
        if mantissa < least:
            mantissa <<= step
            zeros += np.int64(step)
    binary = ((217706 * exponent) >> 16) + 64 + 1023 - zeros
    high, low = _product(mantissa, _HIGH_BITS[exponent - _SMALLEST])
    if (high & _ROUNDING) == _ROUNDING and low + mantissa < mantissa:
        more, least_bits = _product(mantissa, _LOW_BITS[exponent - _SMALLEST])
        before = low
        low += more
        if low < before:
            high += _ONE
        if (
            (high & _ROUNDING) == _ROUNDING
            and low + _ONE == _ZERO
            and least_bits + mantissa < mantissa
        ):
            return _ZERO, False
    top = high >> np.uint64(63)
    fraction = high >> (top + np.uint64(9))
    binary -= np.int64(_ONE ^ top)
    if low == _ZERO and (high & _ROUNDING) == _ZERO and (fraction & np.uint64(3)) == _ONE:
        return _ZERO, False  # half-way between two
    fraction += fraction & _ONE
    fraction >>= _ONE
    if fraction >> np.uint64(53) > _ZERO:
        fraction >>= _ONE
        binary += 1
    if binary < 1 or binary >= 0x7FF:
        return _ZERO, False  # subnormal, or infinite
    return (np.uint64(binary) << np.uint64(52)) | (fraction & _FRACTION), True


@jit.helper
def number(text, place, values, bits, slot):
    """Read the number at a place into a slot; where it ends, what was found, and if it is whole.

    `values` and `bits` are the same memory, as float64 and as uint64. What is LEFT to Python is not
    written. The text ends in a newline, which no number contains.
    """
    start = place
    negative = text[place] == 45
    if negative or text[place] == 43:
        place += 1
    digits, used, shift, any_digits, whole = _ZERO, 0, 0, False, True
    while True:
        c = text[place]
        if 48 <= c <= 57:
            any_digits = True
            if used > 0 or c != 48:
                used += 1
                if used <= _DIGITS:
                    digits = digits * _TEN + np.uint64(c - 48)
            if not whole:
                shift -= 1
        elif c == 46 and whole:
            whole = False
        else:
            break
        place += 1
    if not any_digits:
        c = text[place] | 32
        named = c == 105 or c == 110  # inf, nan
        return start, (NOT_FINITE if named else FAULT), False
    if (text[place] | 32) == 101:
        place += 1
        whole = False
        falls = text[place] == 45
        if falls or text[place] == 43:
            place += 1
        if not 48 <= text[place] <= 57:
            return start, FAULT, False
        exponent = 0
        while 48 <= text[place] <= 57:
            exponent = min(exponent * 10 + (text[place] - 48), _FAR)
            place += 1
        shift += -exponent if falls else exponent
    if used == 0:
        values[slot] = 0.0
        if negative:
            bits[slot] = _SIGN
        return place, DONE, whole
    if used > _DIGITS or shift < _SMALLEST or shift > _LARGEST:
        return place, LEFT, whole
    if shift == 0 and digits <= np.uint64(_WHOLE):
        value = np.float64(digits)
        values[slot] = -value if negative else value
        return place, DONE, whole
    found, sure = _nearest(digits, shift)
    if not sure:
        return place, LEFT, whole
    bits[slot] = found | _SIGN if negative else found
    return place, DONE, whole
