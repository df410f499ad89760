"""What detectors have in common: settings, checked before work, and how images are looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from taut.checks import check_flag, check_number
from taut.errors import InvalidData
from taut.estimators.base import as_solver
from taut.estimators.forms import LINEAR, form_of
from taut.problem import check_factor
from taut.solving import check_ends
from taut.vision.photographs import Photographs
from taut.vision.pyramid import Pyramid

#: Settings of windows that are whole numbers, and the least that each may be.
WINDOWS = ("aspects", 1), ("cells", 1), ("cell", 2), ("border", 0), ("longest", 1)


def check_settings(model: Any, flags: Sequence[str], whole: Sequence[tuple[str, int]]) -> None:
    """Refuse settings of training and of features before these are extracted.

    Parameters
    ----------
    model : estimator
    flags : sequence of str
        Parameters that are True or False.
    whole : sequence of (str, int)
        Parameters that are whole numbers, and the least that each may be.
    """
    model._check_options()
    as_solver(model.solver)
    check_factor(model.C)
    check_ends(model.tol, model.max_iter, model.time_limit)
    if form_of(model.kernel) is not LINEAR:
        raise InvalidData(
            f"kernel = {model.kernel!r}: templates are weights of cells; leave the kernel out, "
            "or choose among windows by taut.structures.Candidates, which takes kernels"
        )
    for name in flags:
        check_flag(name, getattr(model, name))
    for name, least in whole:
        check_whole(name, getattr(model, name), least)
    check_number("scale_step", model.scale_step)
    if not 1.01 <= model.scale_step < math.inf:
        raise InvalidData(f"scale_step = {model.scale_step}: give a factor of at least 1.01")


def check_whole(name: str, value: Any, least: int) -> None:
    """Refuse a parameter that is no whole number, or too small."""
    check_number(name, value)
    if not least <= value < math.inf or int(value) != value:
        raise InvalidData(f"{name} = {value}: give a whole number from {least} on")


def extraction_of(model: Any, names: Sequence[str]) -> np.ndarray:
    """Parameters that say how images are looked at, as a fitted attribute."""
    return np.array([float(getattr(model, name)) for name in names])


def check_extraction(model: Any, names: Sequence[str]) -> None:
    """Refuse to answer with parameters that were changed since the fit."""
    for name, known in zip(names, model.extraction_.tolist(), strict=True):
        value = getattr(model, name)
        if value != known:
            raise InvalidData(
                f"{name} = {value}, and the model was fitted with {known:g}: set it back, or fit "
                "again"
            )


def check_weights(model: Any, n_features: int, images: str) -> None:
    """Refuse images with features for more or fewer weights than the model has."""
    if n_features != len(model.coef_):
        raise InvalidData(
            f"{images} features for {n_features} weights, and the model has "
            f"{len(model.coef_)}: give the features that fit saw"
        )


def pyramid_at(photographs: Photographs, i: int, extractor: Any) -> Pyramid:
    """The features of an image in which something must be found."""
    pyramid = photographs.pyramid(i, extractor)
    if pyramid is None:
        raise too_small(i)
    return pyramid


def too_small(i: int) -> InvalidData:
    """What is said of an image that no window fits into."""
    return InvalidData(f"image {i} is smaller than any window: give a larger image")
