"""Joints of people by dlib's cascade of regression trees, which is given the box of each person.

    python benchmarks/joint_cascade.py --data FOLDER

The folder has `lsp_extended`: 500 images to train on and 100 to test, those of `joints.py`. This is
an easier task than that of PartSVM: the box of the visible joints, which nobody knows of a new
image, is given in training and at prediction. Joints that are not visible are left out of both.
CPU seconds of training from the files on, and milliseconds of CPU for an image at prediction, on
one thread. Settings are those of dlib, but for the depth of trees.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import dlib
import numpy as np

from datasets import data_folder, parser
from joint_data import People, people
from taut.metrics import pck
from taut.vision import read_image
from timing import cpu_time, markdown

N_HELD = 100  # training images that settings are chosen on


def boxes_of(some: People) -> np.ndarray:
    """The box around the visible joints of each person: left, top, right, bottom in pixels."""
    hidden = ~some.visible[:, :, None]
    low = np.where(hidden, np.inf, some.joints).min(axis=1)
    high = np.where(hidden, -np.inf, some.joints).max(axis=1)
    return np.hstack([np.floor(low), np.ceil(high)]).astype(int)


def as_xml(some: People) -> str:
    """Images with a box and its visible parts, as dlib reads them."""
    lines = ["<dataset><images>"]
    for image, joints, visible, (left, top, right, bottom) in zip(
        *some, boxes_of(some), strict=True
    ):
        lines.append(f"<image file={quoteattr(str(image.resolve()))}>")
        size = f'width="{right - left + 1}" height="{bottom - top + 1}"'
        lines.append(f'<box top="{top}" left="{left}" {size}>')
        places = np.rint(joints).astype(int)
        lines += [
            f'<part name="{k:02d}" x="{places[k, 0]}" y="{places[k, 1]}"/>'
            for k in np.flatnonzero(visible)
        ]
        lines.append("</box></image>")
    return "\n".join([*lines, "</images></dataset>"])


def trained(train: People, **settings: Any) -> Any:
    """The cascade, by way of files."""
    options = dlib.shape_predictor_training_options()
    options.num_threads = 1
    for name, value in settings.items():
        setattr(options, name, value)
    with tempfile.TemporaryDirectory() as folder:
        given, model = Path(folder, "train.xml"), Path(folder, "cascade.dat")
        given.write_text(as_xml(train))
        dlib.train_shape_predictor(str(given), str(model), options)
        return dlib.shape_predictor(str(model))


def found_by(cascade: Any, test: People) -> np.ndarray:
    """The joints of each person in the box."""
    shapes = [
        cascade(read_image(image), dlib.rectangle(*map(int, box)))
        for image, box in zip(test.images, boxes_of(test), strict=True)
    ]
    return np.array([[(point.x, point.y) for point in shape.parts()] for shape in shapes], float)


def chosen(train: People, candidates: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings that find most joints of the last training images, trained on the others."""
    rest, held = train.take(slice(-N_HELD)), train.take(slice(-N_HELD, None))

    def share(settings: dict[str, Any]) -> float:
        near = pck(found_by(trained(rest, **settings), held), held.joints, held.visible)
        print(f"{settings}: PCK {near.mean:.3f} on {N_HELD} training images", flush=True)
        return near.mean

    return max(candidates, key=share)


def main() -> None:
    """Choose settings on folds of the training images, and print the figures of the test images."""
    arguments = parser(__doc__)
    arguments.add_argument("--depths", type=int, nargs="+", default=[2, 4], help="of a tree")
    options = arguments.parse_args()
    train, test = people(data_folder(options))
    settings = chosen(train, [{"tree_depth": depth} for depth in options.depths])
    cascade, seconds = cpu_time(lambda: trained(train, **settings))
    found, asked = cpu_time(lambda: found_by(cascade, test))
    near = pck(found, test.joints, test.visible)
    row = [
        settings, f"{near.mean:.2f}", f"{seconds:.1f}", f"{1e3 * asked / len(test.images):.1f}"
    ]  # fmt: skip
    print(markdown(["", "PCK@0.2, boxes given", "training, CPU s", "ms per image"], [row]))


if __name__ == "__main__":
    main()
