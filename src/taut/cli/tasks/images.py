"""Tasks whose data are images: boxes and joints in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from taut.cli.output import plain
from taut.cli.tasks.base import Asked, Task
from taut.errors import InvalidData
from taut.metrics import mean_average_precision, pck, pcp, visibility_accuracy

_OVERLAPS = (0.3, 0.5, 0.7)
_SUFFIXES = (".json", ".xml")


def looks_like_boxes(path: str, asked: Asked) -> bool:
    """Whether a file is one of boxes in images."""
    given = Path(path)
    if asked.images is not None or asked.split is not None:
        return True
    if given.is_dir():
        return (
            any(child.suffix.lower() in _SUFFIXES for child in given.iterdir())
            and not (given / "header.json").exists()
        )
    return given.suffix.lower() in _SUFFIXES


class BoxesInImages(Task):
    """Boxes with classes."""

    name = "boxes"
    about = "boxes of objects in images, with their classes"
    estimators = ("BoxSVM", "LatentBoxSVM")

    def read(self, path: str, asked: Asked, model: Any = None) -> Any:
        from taut.vision import read_boxes

        return read_boxes(path, images=asked.images, split=asked.split, **asked.reading)

    def fit(self, model: Any, data: Any) -> None:
        model.fit(data.images, data.boxes)

    def measures(self, model: Any, data: Any) -> dict[str, float]:
        found = model.detect(data.images, threshold=-float("inf"))
        return {
            f"average_precision@{overlap}": mean_average_precision(found, data.boxes, overlap)
            for overlap in _OVERLAPS
        }

    def answers(self, model: Any, data: Any) -> Iterator[Any]:
        for image, found in zip(data.images, model.detect(data.images), strict=True):
            boxes = zip(found.classes, found.scores, found.edges, strict=True)
            yield {
                "file": str(image),
                "boxes": [plain([name, *edges, score]) for name, score, edges in boxes],
            }

    def line(self, answer: Any) -> str:
        # As YOLO and many others have it: a line for each box, here with the file and the score.
        rows = (
            (answer["file"], box[0], f"{box[-1]:.4g}", *(f"{edge:.1f}" for edge in box[1:-1]))
            for box in answer["boxes"]
        )
        return "\n".join("\t".join(map(str, row)) for row in rows)


class PartsInImages(Task):
    """Joints of one object in each image."""

    name = "parts"
    about = "the joints of the object in each image, such as those of a person"
    estimators = ("PartSVM",)

    def read(self, path: str, asked: Asked, model: Any = None) -> Any:
        from taut.vision.joint_files import read_joint_file

        if asked.reading:
            raise InvalidData(f"{next(iter(asked.reading))} is no option for files of joints")
        return read_joint_file(path, asked.images)

    def fit(self, model: Any, data: Any) -> None:
        if model.names is None and data.names is not None:
            model.set_params(names=data.names)
        model.fit(data.images, data.joints, data.visible)

    def measures(self, model: Any, data: Any) -> dict[str, float]:
        found = model.predict(data.images)
        return {
            "pck@0.2": pck(found.joints, data.joints, data.visible).mean,
            "pcp": pcp(found.joints, data.joints, model.limbs_, data.visible).mean,
            "visibility": visibility_accuracy(found.visible, data.visible).mean,
        }

    def answers(self, model: Any, data: Any) -> Iterator[Any]:
        found = model.predict(data.images)
        rows = zip(data.images, found.joints, found.visible, found.scores, strict=True)
        for image, joints, visible, score in rows:
            yield {
                "file": str(image),
                "score": plain(score),
                "joints": [
                    [*place, seen]
                    for place, seen in zip(plain(joints), plain(visible), strict=True)
                ],
            }

    def line(self, answer: Any) -> str:
        places = (f"{x:.1f},{y:.1f},{int(seen)}" for x, y, seen in answer["joints"])
        return "\t".join([answer["file"], f"{answer['score']:.4g}", *places])
