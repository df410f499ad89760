"""A sampler from what a user gives: a name, a function, a sampler, or nothing in particular."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taut.binding import Data
from taut.errors import InvalidData
from taut.sampling.base import Argmax, Sampler
from taut.sampling.chance import Random
from taut.sampling.diverse import Diverse
from taut.sampling.listed import AllLabels, Top
from taut.sampling.m_best import MBest
from taut.sampling.own import Given, Own

_NAMED = {kind.name: kind for kind in (Argmax, AllLabels, Top, MBest, Diverse, Random, Own)}


def as_sampler(sampler: str | Sampler | Callable[..., Any], data: Data) -> Sampler:
    """The sampler that is meant, in its form for data bound to a structure.

    Parameters
    ----------
    sampler : str, Sampler or callable
        A name of `taut.sampling`, a sampler, or a function as `Given` takes it. "auto" is the
        structure's own `sample` where it has one; otherwise "top" where labels are listed, "m_best"
        where the best can be found in order, and else "argmax".
    data : CompiledData or PythonData
        `Problem.data`.

    Raises
    ------
    MissingOracle
        The structure does not have what the sampler needs.
    InvalidData
        It is no sampler.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem
    >>> from taut.sampling import as_sampler
    >>> from taut.structures import Chain, Multiclass
    >>> X, y = np.eye(2), np.array([0, 1])
    >>> as_sampler("auto", Problem(Multiclass(2), X, y).data).name
    'top'
    >>> as_sampler("top", Problem(Chain(2), (X, np.array([0, 2])), y).data)
    Traceback (most recent call last):
        ...
    taut.errors.MissingOracle: sampler="top" needs all_labels, an int32 array with a label per row,
    which Chain does not have: write it, or use sampler="m_best", "argmax" or your own function
    """
    if isinstance(sampler, Sampler):
        return sampler.suited(data)
    if callable(sampler) and not isinstance(sampler, type):
        return Given(sampler)
    if sampler == "auto":
        return _auto(data)
    if not isinstance(sampler, str) or sampler not in _NAMED:
        raise InvalidData(
            f'sampler is {sampler!r}: give "auto", {", ".join(map(repr, _NAMED))}, a function, or '
            "an object such as taut.sampling.Top()"
        )
    return _NAMED[sampler]().suited(data)


def _auto(data: Data) -> Sampler:
    if data.draws_labels:
        return Own()
    if data.lists_labels:
        return Top()
    return MBest() if data.ranks_labels else Argmax()
