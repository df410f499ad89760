"""What a visit to an image of parts costs: milliseconds of CPU for each level, on one thread.

python benchmarks/parts.py

An image of 320 x 320 pixels in cells of 8 pixels with a margin of 2, 14 parts of 5 aspects,
templates of 5 x 5 cells with 37 channels, all from noise: no step of these depends on what the
numbers are, but for how often parabolas of a distance transform leave the envelope.
"""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from taut.binding import CompiledData, bind
from taut.compiled.lanes import aligned_zeros
from taut.structures import Parts
from taut.vision import JointPose, pyramid_of
from timing import in_turns

SIDE, MARGIN, CHANNELS, LEVELS = 40, 2, 37, 4
PARENTS = [1, 2, 8, 9, 3, 4, 7, 8, 12, 12, 9, 10, -1, 12]
ASPECTS, SAMPLES = 5, 64


def made(rng: np.random.Generator) -> tuple[CompiledData, np.ndarray]:
    """A block and weights."""
    maps = [rng.random((SIDE, SIDE, CHANNELS)) for _ in range(LEVELS)]
    pyramid = pyramid_of(maps, [8.0] * LEVELS, (8.0 * SIDE, 8.0 * SIDE), margin=MARGIN)
    cells = np.round(255.0 * pyramid.cells).astype(np.uint8)  # as HOG has them
    anchors = [3.0 * rng.normal(size=(ASPECTS, 2)) for _ in PARENTS]
    pose = JointPose(
        8.0 * SIDE * rng.random((len(PARENTS), 2)), np.ones(len(PARENTS), dtype=bool),
        rng.integers(ASPECTS, size=len(PARENTS)), 80.0,
    )  # fmt: skip
    data: Any = bind(Parts(PARENTS, anchors), [pyramid._replace(cells=cells, unit=1 / 255)], [pose])
    return data, np.maximum(0.1 * rng.normal(size=data.n_features), data.prior.lower)


def _pull(operations: Any) -> Callable[..., Any]:
    pull = operations.pull

    def run(space, data, w, work, found):
        pull(space, 0, w, work)

    return run


def _argmax(operations: Any) -> Callable[..., Any]:
    argmax = operations.argmax

    def run(space, data, w, work, found):
        return argmax(data, 0, work, 1.0, found[0])

    return run


def _sample(operations: Any) -> Callable[..., Any]:
    sample = operations.sample

    def run(space, data, w, work, found):
        return sample(data, 0, work, 1.0, 1, found)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    data, w = made(np.random.default_rng(0))
    work = aligned_zeros(data.blocks.work_size, np.float32)
    arguments = (
        data.space(np.float32), data.blocks.data, data.pad(w.astype(np.float32)), work,
        np.empty((SAMPLES, len(PARENTS)), dtype=np.int32),
    )  # fmt: skip
    kernels = {
        "correlation": data.kernel(_pull),
        "best label": data.kernel(_argmax),
        f"{SAMPLES} samples": data.kernel(_sample),
    }
    calls = {name: functools.partial(run, *arguments) for name, run in kernels.items()}
    for name, seconds in in_turns(calls, repeats).items():
        print(f"{name:12} {1e3 * seconds / LEVELS:6.2f} ms for each level")
    print(f"room of a thread: {work.nbytes / 1e6:.0f} MB in single precision")


if __name__ == "__main__":
    main()
