"""Joints from files: COCO's key points, plain lists, and arrays of numpy."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taut.checks import as_path
from taut.errors import InvalidData, InvalidFile
from taut.vision.images import list_images
from taut.vision.joints import read_joints

_NAMES = "names of the joints"


@dataclass(frozen=True, eq=False, repr=False)
class JointFile:
    """Images and the joints of the object in each, from `read_joint_file`.

    Attributes
    ----------
    images : list of Path
    joints : ndarray of shape (n_images, n_joints, 2)
    visible : ndarray of bool, shape (n_images, n_joints)
    names : list of str or None
    """

    images: list[Path]
    joints: np.ndarray
    visible: np.ndarray
    names: list[str] | None

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return f"JointFile(images={len(self)}, joints={self.joints.shape[1]})"


def read_joint_file(
    path: str | os.PathLike[str], images: str | os.PathLike[str] | None = None
) -> JointFile:
    """Read joints and find the images that they are in.

    Parameters
    ----------
    path : path-like
        - ``.npz``: an array `joints` of shape (n, n_joints, 2), or (n, n_joints, 3) with 0 for
          joints that are not visible; perhaps `names`, and `files`, the names of the images.
          Without these the images of the folder are taken in the order of their names.
        - ``.json``: a list with ``{"file": "a.jpg", "joints": [[x, y, visible], ...]}`` for each
          image; or the key points of COCO, of images with one annotation each.
    images : path-like, optional
        The folder of the images; by default `images` beside the file, or the file's own.

    Returns
    -------
    JointFile

    Raises
    ------
    InvalidFile
        The file is damaged, or of no such form.
    InvalidData
        An image is missing, or there are fewer images than objects.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> folder = Path(tempfile.mkdtemp())
    >>> Image.new("RGB", (20, 20)).save(folder / "a.png")
    >>> _ = (folder / "joints.json").write_text('[{"file": "a.png", "joints": [[3, 4, 1]]}]')
    >>> read_joint_file(folder / "joints.json").joints.tolist()
    [[[3.0, 4.0]]]
    """
    place = as_path("path", path)
    readers: dict[str, Callable] = {".npz": _read_arrays, ".json": _read_json}
    if place.suffix.lower() not in readers:
        raise InvalidFile(f"{place}: joints are read from .npz and .json; give one of these")
    try:
        files, joints, names = readers[place.suffix.lower()](place)
        values = np.asarray(joints, dtype=np.float64)
    except (KeyError, TypeError, ValueError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        if isinstance(error, InvalidFile):
            raise
        raise InvalidFile(
            f"{place} has no joints in a form that is known ({type(error).__name__}: {error})"
        ) from error
    if values.ndim != 3 or values.shape[2] not in (2, 3):
        raise InvalidFile(
            f"{place}: joints have shape {values.shape}; give x and y of each, or x, y and visible"
        )
    folder = _folder(place, images)
    found = list_images(folder)[: len(values)] if files is None else [folder / f for f in files]
    missing = [path for path in found if not path.is_file()]
    if missing or len(found) < len(values):
        what = str(missing[0]) if missing else f"image {len(found) + 1} of {len(values)}"
        raise InvalidData(f"{what} is not there: give the folder of the images of {place}")
    seen = values[:, :, 2] > 0.0 if values.shape[2] == 3 else None
    return JointFile(found, *read_joints(values[:, :, :2], seen), names)


def _folder(place: Path, images: Any) -> Path:
    if images is not None:
        return as_path("images", images)
    beside = place.parent / "images"
    return beside if beside.is_dir() else place.parent


def _read_arrays(place: Path) -> tuple[Any, Any, Any]:
    with np.load(place, allow_pickle=False) as arrays:
        files, names = (arrays[n].tolist() if n in arrays else None for n in ("files", "names"))
        return files, arrays["joints"], names


def _read_json(place: Path) -> tuple[Any, Any, Any]:
    content = json.loads(place.read_text(encoding="utf-8"))
    if isinstance(content, dict):
        return _of_coco(place, content)
    return [entry["file"] for entry in content], [entry["joints"] for entry in content], None


def _of_coco(place: Path, content: dict[str, Any]) -> tuple[Any, Any, Any]:
    by_image: dict[Any, list[Any]] = {}
    for note in content["annotations"]:
        if note["image_id"] in by_image:
            raise InvalidFile(
                f"{place}: image {note['image_id']} has several objects; give each object an image "
                "of its own, cut out of the photograph"
            )
        by_image[note["image_id"]] = np.reshape(note["keypoints"], (-1, 3)).tolist()
    names = next((kind["keypoints"] for kind in content["categories"] if "keypoints" in kind), None)
    files = {entry["id"]: entry["file_name"] for entry in content["images"]}
    return [files[image] for image in by_image], list(by_image.values()), names
