"""One detector on one set, in a process of its own: `python detection_worker.py DATA SET METHOD`.

`detection.py` starts it. What it has found and measured goes to standard output, pickled.
"""

from __future__ import annotations

import os
import resource
import sys

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import pickle
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from detection_data import SETS, Photographs
from detection_negatives import HardNegatives
from detection_rivals import Detector, Dlib, Geometry, MeanBox, Taut
from taut.vision import Detections, read_image
from timing import cpu_time

#: C, and the number of shapes for dlib, chosen by `detection.py --part tune`.
DLIB = {"raccoon": (50.0, 1), "horses": (5.0, 1)}
NEGATIVES = 0.01
METHODS: dict[str, Callable[[str], Detector]] = {
    "BoxSVM": lambda name: Taut(),
    "dlib": lambda name: Dlib(*DLIB[name]),
    "hard negatives": lambda name: HardNegatives(NEGATIVES),
    "geometry alone": lambda name: Geometry(),
    "mean box": lambda name: MeanBox(),
}
_ROUNDS = 3  # of detection
_WARM_UP = 12  # images


class Measured(NamedTuple):
    """What a worker has found and measured."""

    detections: list[Detections]
    fit_seconds: float  # CPU, from files, without compilation
    array_seconds: float  # CPU of detection for an image that is decoded
    file_seconds: float
    peak: float  # megabytes
    imported: float  # megabytes before anything was done
    gap: float | None


def main() -> None:
    folder, name, method = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    imported = _megabytes()
    data = SETS[name](folder)
    _warm_up(METHODS[method](name), data)
    model = METHODS[method](name)
    _, fit_seconds = cpu_time(lambda: model.fit(data.images, data.boxes))
    detections, _ = cpu_time(lambda: model.detect(data.test_images))
    peak = _megabytes()
    arrays = [read_image(image) for image in data.test_images]
    array_seconds, file_seconds = (
        _detection(model, images) for images in (arrays, data.test_images)
    )
    result = Measured(
        detections, fit_seconds, array_seconds, file_seconds, peak, imported, model.gap
    )
    sys.stdout.buffer.write(pickle.dumps(tuple(result)))


def _warm_up(model: Detector, data: Photographs) -> None:
    """Have everything compiled, or loaded, that fitting and detection need.

    dlib is compiled, and the mean box is not.
    """
    if isinstance(model, Taut | HardNegatives):
        model.fit(data.images[:_WARM_UP], data.boxes[:_WARM_UP])
        model.detect(data.test_images[:1])


def _detection(model: Detector, images: list[Any]) -> float:
    """CPU seconds for an image."""
    seconds = [cpu_time(lambda: model.detect(images))[1] for _ in range(_ROUNDS)]
    return statistics.median(seconds) / len(images)


def _megabytes() -> float:
    """The most memory that this process has had so far.

    Linux counts in `getrusage` what the process had before it became a new program, too: the memory
    of the one that started it.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024.0


if __name__ == "__main__":
    main()
