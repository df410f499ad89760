"""What BoxSVM says to bad images and boxes; `detection.py --part faults` prints it as a table."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from taut import BoxSVM
from taut.errors import TautError
from taut.vision import Boxes, HogPyramid, pyramid_of, read_boxes

Case = tuple[str, Callable[[], Any]]


def _cards(n: int, seed: int = 0) -> tuple[list[Any], list[Any]]:
    """Bright cards before noise."""
    rng = np.random.default_rng(seed)
    images, boxes = [], []
    for _ in range(n):
        image = rng.integers(90, 110, size=(64, 80, 3), dtype=np.uint8)
        x, y = rng.integers(4, 40, size=2).tolist()
        image[y : y + 20, x : x + 30] = 220
        images.append(image)
        boxes.append([("card", x, y, x + 30, y + 20)])
    return images, boxes


def _model(**settings: Any) -> BoxSVM:
    return BoxSVM(**({"cells": 16, "random_state": 0, "max_iter": 300} | settings))


def cases(folder: Path) -> list[Case]:
    """What is wrong, and a call that shows what comes of it."""
    images, boxes = _cards(8)
    fitted = _model().fit(images, boxes)

    def changed_image(image: Any, number: int = 3) -> Callable[[], Any]:
        return lambda: _model().fit(images[:number] + [image] + images[number + 1 :], boxes)

    def changed_boxes(own: Any, number: int = 3) -> Callable[[], Any]:
        return lambda: _model().fit(images, boxes[:number] + [own] + boxes[number + 1 :])

    noise, empty, broken = (folder / name for name in ("noise.jpg", "empty.jpg", "broken.jpg"))
    noise.write_bytes(b"this is no image at all")
    empty.touch()
    whole = folder / "whole.jpg"
    Image.fromarray(images[3]).save(whole, quality=95)
    broken.write_bytes(whole.read_bytes()[:-400])
    (folder / "nothing").mkdir()
    listed = folder / "boxes.json"
    listed.write_text('[{"file": "whole.jpg", "boxes": [["card", 90, 10, 120, 30]]}]')
    ignored = Boxes(np.array([[4.0, 4.0, 34.0, 24.0]]), np.array(["card"]), np.array([True]))
    tiny = np.full((5, 6, 3), 100, dtype=np.uint8)
    nan = np.full((64, 80, 3), np.nan)
    pyramids = [HogPyramid(margin=2).extract(image) for image in images]
    flat = HogPyramid(margin=2, colour=False).extract(images[0])
    own = pyramid_of([np.ones((6, 8, 3))], [10.0], (80, 64))
    other_class = [("cat", *box[1:]) for box in boxes[0]]
    return [
        ("fit: a file that is not there", changed_image(folder / "nowhere.jpg")),
        ("fit: a file that is no image", changed_image(noise)),
        ("fit: an empty file", changed_image(empty)),
        ("fit: a file that breaks off", changed_image(broken)),
        ("detect: a file that is no image", lambda: fitted.detect([images[0], noise])),
        ("fit: an image of NaN", changed_image(nan)),
        ("fit: five channels", changed_image(np.zeros((64, 80, 5), dtype=np.uint8))),
        ("fit: a box outside its image", changed_boxes([("card", 200, 200, 230, 220)])),
        ("fit: a box partly outside", changed_boxes([("card", 60, 50, 90, 70)])),
        ("fit: a box of negative width", changed_boxes([("card", 30, 10, 20, 40)])),
        ("fit: a box without area", changed_boxes([("card", 30, 10, 30, 40)])),
        ("fit: NaN in a box", changed_boxes([("card", 30, 10, float("nan"), 40)])),
        ("fit: a box in place of a list", changed_boxes(("card", 30, 10, 40, 40))),
        ("read_boxes: a box outside", lambda: read_boxes(listed, images=folder)),
        ("fit: no boxes in one image", changed_boxes([])),
        ("fit: no boxes in any image", lambda: _model().fit(images, [[]] * 8)),
        ("fit: only ignored boxes", lambda: _model().fit(images, [ignored] * 8)),
        ("fit: ignored boxes in one image", changed_boxes(ignored)),
        ("fit: boxes=None", lambda: _model().fit(images)),
        ("fit: fewer boxes than images", lambda: _model().fit(images, boxes[:5])),
        ("fit: no images", lambda: _model().fit([], [])),
        ("fit: one image in a list", lambda: _model().fit(images[:1], boxes[:1])),
        ("fit: one image, no list", lambda: _model().fit(images[0], boxes[:1])),
        ("fit: an image smaller than a window, with its box",
         lambda: _model().fit([*images, tiny], [*boxes, [("card", 0, 0, 6, 5)]])),
        ("fit: an image smaller than a window, without box",
         lambda: _model().fit([*images, tiny], [*boxes, []])),
        ("fit: all images smaller than a window",
         lambda: _model(cells=400).fit([tiny] * 3, [[("card", 1, 1, 5, 4)]] * 3)),
        ("detect: an image smaller than a window", lambda: fitted.detect([tiny])),
        ("detect: a longest side of 3000", lambda: fitted.detect(
            [np.full((40, 3000, 3), 100, dtype=np.uint8)])),
        ("detect: no images", lambda: fitted.detect([])),
        ("detect before fit", lambda: _model().detect(images)),
        ("fit: a class in one image alone", changed_boxes(other_class)),
        ("score: a class that fit has not seen", lambda: fitted.score(images[:1], [other_class])),
        ("score: no boxes", lambda: fitted.score(images[:2], [[], []])),
        ("fit: an aspect ratio of 60", changed_boxes([("card", 2, 10, 78, 11)])),
        ("fit: names of classes and numbers",
         lambda: _model().fit(images, [[(7, *box[0][1:])] for box in boxes[:4]] + boxes[4:])),
        ("fit: pyramids of other channels",
         lambda: _model().fit([*pyramids[:7], flat], boxes)),
        ("fit: pyramids of other margins", lambda: _model().fit(
            [*pyramids[:7], HogPyramid(margin=3).extract(images[7])], boxes)),
        ("fit: pyramids whose mirror image is not known",
         lambda: _model().fit([own] * 8, boxes)),
        ("fit: pyramids, then an image", lambda: _model().fit([*pyramids[:7], images[7]], boxes)),
        ("fit: an image, then pyramids", lambda: _model().fit([images[0], *pyramids[1:]], boxes)),
        ("detect: a pyramid of other channels", lambda: fitted.detect([flat])),
        ("detect: a folder without images", lambda: fitted.detect(folder / "nothing")),
        ("fit: cell=0", lambda: _model(cell=0).fit(images, boxes)),
        ("fit: scale_step=1", lambda: _model(scale_step=1.0).fit(images, boxes)),
        ("fit: match=1", lambda: _model(match=1.0).fit(images, boxes)),
        ("fit: suppression=2", lambda: _model(suppression=2.0).fit(images, boxes)),
        ("fit: longest=0", lambda: _model(longest=0).fit(images, boxes)),
        ("fit: longest=0.5", lambda: _model(longest=0.5).fit(images, boxes)),
        ("fit: scale_step=inf", lambda: _model(scale_step=np.inf).fit(images, boxes)),
        ("fit: kernel='rbf'", lambda: _model(kernel="rbf").fit(images, boxes)),
        ("detect: top=0", lambda: fitted.detect(images[:1], top=0)),
        ("detect: threshold=NaN", lambda: fitted.detect(images[:1], threshold=np.nan)),
        ("detect: suppression=3", lambda: fitted.detect(images[:1], suppression=3.0)),
        ("fit_probabilities: no boxes", lambda: _model().fit(images, boxes).fit_probabilities(
            images, [[]] * 8)),
        ("probabilities before fit_probabilities",
         lambda: fitted.probabilities(fitted.detect(images[:1]))),
    ]  # fmt: skip


def outcomes() -> list[tuple[str, str, str]]:
    """What was wrong, what came of it, and what was said."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, call in cases(folder):
            with warnings.catch_warnings(record=True) as noticed:
                warnings.simplefilter("always")
                kind, said = _outcome(call)
            said += "".join(f" [{w.category.__name__}: {w.message}]" for w in noticed[:1])
            found.append((what, kind, said.replace(f"{folder}/", "").replace("|", "\\|")))
    return found


def _outcome(call: Callable[[], Any]) -> tuple[str, str]:
    try:
        result = call()
    except TautError as error:
        return type(error).__name__, str(error)
    except Exception as error:
        return f"{type(error).__name__}, not of taut", str(error)
    if isinstance(result, list):
        return "answer", f"{[len(each.scores) for each in result]} boxes"
    return "answer", ""
