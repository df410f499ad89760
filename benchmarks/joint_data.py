"""Photographs of people in sport with their joints, and the settings that fit them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taut.vision import read_joints

NAMES = (
    "right ankle", "right knee", "right hip", "left hip", "left knee", "left ankle", "right wrist",
    "right elbow", "right shoulder", "left shoulder", "left elbow", "left wrist", "neck",
    "head top",
)  # fmt: skip
SWAPS = tuple((name, name.replace("right", "left")) for name in NAMES if "right" in name)
#: Head, and upper and lower parts of arms and legs, the right ones first.
LIMBS = ((12, 13), (8, 7), (7, 6), (2, 1), (1, 0), (9, 10), (10, 11), (3, 4), (4, 5))
N_IMAGES, N_TRAIN = 600, 500


class People(NamedTuple):
    """Some images with one person each."""

    images: list[Path]
    joints: np.ndarray
    visible: np.ndarray

    def take(self, which: slice) -> People:
        """Some of them."""
        return People(*(values[which] for values in self))


def people(folder: Path) -> tuple[People, People]:
    """500 images to train on and 100 to test, in the order of the files."""
    own = folder / "lsp_extended"
    stored = np.load(own / "joints.npz")["joints"][:N_IMAGES]
    joints, visible = read_joints(stored[:, :, :2], stored[:, :, 2] > 0.0)
    images = [own / "images" / f"im{number:05d}.jpg" for number in range(1, N_IMAGES + 1)]
    everyone = People(images, joints, visible)
    return everyone.take(slice(N_TRAIN)), everyone.take(slice(N_TRAIN, None))


def settings(**changes: Any) -> dict[str, Any]:
    """Those of the model that is compared; C was chosen on training images."""
    chosen = {
        "names": NAMES, "swaps": SWAPS, "mirror": False, "C": 0.02, "cells": 16.0,
        "scale_step": 2.0, "max_iter": 10, "random_state": 0,
    }  # fmt: skip
    return chosen | changes
