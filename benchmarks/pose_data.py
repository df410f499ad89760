"""Images of a solid shape seen from known angles, before clutter: boxes and angles for PoseSVM.

A car or a chair of random proportions, colours and textures is drawn in perspective, with a depth
buffer, from a random height and distance, in light from a random side, before a crop of a
photograph or generated clutter. Things stand in front of some, and noise is added. At angle 0 the
shape faces the camera, and grows to the side as it turns counter-clockwise seen from above.

    python benchmarks/pose_data.py FOLDER --n 2000
    python benchmarks/pose_data.py FOLDER --n 2000 --photographs IMAGES --shape chair --seed 1

writes FOLDER/images/*.png and FOLDER/poses.json: a file, a box in pixels and an angle in degrees
for each image. The same seed makes the same images.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from taut.vision import list_images, read_image

WIDTH, HEIGHT = 128, 96
FINER = 2  # each pixel is the mean of as many in each direction
SEGMENTS = 14  # of a wheel


class Posed(NamedTuple):
    """Images of one object each."""

    images: list[np.ndarray]  # uint8, (height, width, 3)
    boxes: np.ndarray  # (n, 4): left, top, right, bottom
    angles: np.ndarray  # (n,): radians in [0, 2 pi)


class Surface(NamedTuple):
    """A convex polygon in space, with a colour and a pattern."""

    corners: np.ndarray  # (k, 3): to the front, to the left, up
    colour: np.ndarray
    pattern: float  # waves of its texture over a unit of length, 0 for none


def block(low, high, colour, pattern=0.0, inset=(0.0, 0.0, 0.0)):
    """The six sides of a box, whose top is smaller at its front, its back and its two flanks."""
    x, y, z = np.stack([low, high]).T
    front, back, flank = inset
    bottom = np.array([[x[0], y[0]], [x[1], y[0]], [x[1], y[1]], [x[0], y[1]]])
    top = bottom + np.array([[back, flank], [-front, flank], [-front, -flank], [back, -flank]])
    corners = np.vstack(
        [np.column_stack([bottom, np.full(4, z[0])]), np.column_stack([top, np.full(4, z[1])])]
    )
    sides = [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]]
    return [Surface(corners[side], colour, pattern) for side in sides]


def wheel(centre, radius, width, colour):
    """A tyre with a lighter disc on each side."""
    turns = 2.0 * np.pi * np.arange(SEGMENTS) / SEGMENTS
    ring = radius * np.column_stack([np.cos(turns), np.zeros(SEGMENTS), np.sin(turns)])
    half = np.array([0.0, width / 2.0, 0.0])
    left, right = centre + ring + half, centre + ring - half
    found = []
    for k in range(SEGMENTS):
        nxt = (k + 1) % SEGMENTS
        found.append(Surface(np.array([left[k], left[nxt], right[nxt], right[k]]), colour, 0.0))
    for side, out in ((left, half), (right, -half)):
        found.append(Surface(side, colour, 0.0))
        inner = centre + 0.55 * ring + 1.05 * out
        found.append(Surface(inner, np.array([0.75, 0.75, 0.78]), 3.0))
    return found


def car(rng):
    """Bonnet, cabin nearer to the back, wheels, white lights in front, red ones behind."""
    length, width = rng.uniform(1.7, 2.2), rng.uniform(0.75, 0.9)
    low, high, roof = rng.uniform(0.16, 0.22), rng.uniform(0.48, 0.58), rng.uniform(0.85, 1.0)
    a, b, radius = length / 2.0, width / 2.0, rng.uniform(0.18, 0.23)
    paint, glass = rng.uniform(0.1, 0.95, size=3), rng.uniform(0.05, 0.25) * np.ones(3)
    back, front = -0.8 * a, rng.uniform(0.25, 0.4) * a
    found = block([-a, -b, low], [a, b, high], paint, rng.choice([0.0, 4.0]), (0.08, 0.02, 0.03))
    found += block(
        [back, -0.92 * b, high], [front, 0.92 * b, roof], glass, 0.0,
        (rng.uniform(0.25, 0.4), rng.uniform(0.05, 0.2), 0.1),
    )  # fmt: skip
    found += block([back + 0.2, -0.75 * b, roof], [front - 0.4, 0.75 * b, roof + 0.03], paint)
    tyre = rng.uniform(0.03, 0.12) * np.ones(3)
    for x in (-0.62 * a, 0.62 * a):
        for y in (-b, b):
            found += wheel(np.array([x, y, radius]), radius, 0.16, tyre)
    for y in (-0.7 * b, 0.7 * b):
        light = np.array([0.02, 0.15 * b, 0.06])
        for x, colour in ((a, [1.0, 1.0, 0.85]), (-a, [0.8, 0.05, 0.05])):
            at = np.array([x, y, 0.75 * high])
            found += block(at - light, at + light, np.array(colour))
    found += block(
        [a - 0.01, -0.4 * b, low + 0.05], [a + 0.02, 0.4 * b, low + 0.16], 0.15 * np.ones(3), 12.0
    )
    return found


def chair(rng):
    """A seat on four legs, a high back, and one arm."""
    size, seat, top = rng.uniform(0.8, 1.0), rng.uniform(0.55, 0.7), rng.uniform(1.3, 1.6)
    a, leg = size / 2.0, rng.uniform(0.04, 0.07)
    wood, cloth = rng.uniform(0.15, 0.6) * np.array([1.0, 0.75, 0.5]), rng.uniform(0.1, 0.9, size=3)
    found = block([-a, -a, seat], [a, a, seat + 0.12], cloth, 5.0)
    found += block([-a, -a, seat], [-a + 0.1, a, top], cloth, rng.choice([0.0, 5.0]))
    for x in (-a + leg, a - leg):
        for y in (-a + leg, a - leg):
            found += block([x - leg, y - leg, 0.0], [x + leg, y + leg, seat], wood)
    found += block([-a, a - 0.1, seat + 0.35], [0.8 * a, a, seat + 0.42], wood)
    found += block([0.6 * a, a - 0.1, seat], [0.8 * a, a, seat + 0.35], wood)
    return found


SHAPES = {"car": car, "chair": chair}


def draw(surfaces, angle, elevation, distance, scale, centre, light, rng):
    """Colours, and where there is one, of a picture finer than it is shown.

    `scale` is how many fine pixels a unit of length has at the distance of the origin.
    """
    height, width = FINER * HEIGHT, FINER * WIDTH
    depth, colours = np.full((height, width), np.inf), np.zeros((height, width, 3))
    c, s = np.cos(angle), np.sin(angle)
    up, down = np.cos(elevation), np.sin(elevation)
    turned = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    # Towards the camera, to the right of the picture, up in it.
    camera = np.array([[up, 0.0, down], [0.0, 1.0, 0.0], [-down, 0.0, up]]) @ turned
    phase = rng.uniform(0.0, 2.0 * np.pi, size=2)
    for surface in surfaces:
        corners = surface.corners @ camera.T
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        normal /= max(np.linalg.norm(normal), 1e-12)
        shade = 0.45 + 0.55 * abs(normal @ light) if normal @ light * normal[0] > 0 else 0.45
        away = distance - corners[:, 0]
        places = centre + scale * distance * corners[:, 1:] / away[:, None] * np.array([1.0, -1.0])
        for k in range(1, len(corners) - 1):
            three = [0, k, k + 1]
            fill(
                depth, colours, places[three], away[three], surface.corners[three],
                shade * surface.colour, surface.pattern, phase,
            )  # fmt: skip
    return colours, np.isfinite(depth)


def fill(depth, colours, places, away, corners, colour, pattern, phase):
    """Draw a triangle where nothing is nearer."""
    low = np.maximum(np.floor(places.min(axis=0)).astype(int), 0)
    high = np.minimum(np.ceil(places.max(axis=0)).astype(int) + 1, depth.shape[::-1])
    if (low >= high).any():
        return
    (ax, ay), (bx, by), (cx, cy) = places
    area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
    if abs(area) < 1e-9:
        return
    x, y = np.arange(low[0], high[0]) + 0.5, (np.arange(low[1], high[1]) + 0.5)[:, None]
    second = ((x - ax) * (cy - ay) - (cx - ax) * (y - ay)) / area
    third = ((bx - ax) * (y - ay) - (x - ax) * (by - ay)) / area
    shares = np.stack([1.0 - second - third, second, third])
    # Not pixels are evenly spaced on a surface in perspective, but their inverse distances.
    inverse = np.tensordot(1.0 / away, shares, axes=1)
    window = (slice(low[1], high[1]), slice(low[0], high[0]))
    inside = (shares >= 0.0).all(axis=0) & (1.0 / inverse < depth[window])
    if not inside.any():
        return
    depth[window][inside] = (1.0 / inverse)[inside]
    paint = np.ones(int(inside.sum()))
    if pattern:
        at = (corners / away[:, None]).T @ shares[:, inside] / inverse[inside]
        waves = np.sin(2.0 * np.pi * pattern * (at[0] + at[1]) + phase[0])
        paint += 0.25 * waves * np.sin(2.0 * np.pi * pattern * at[2] + phase[1])
    colours[window][inside] = paint[:, None] * colour


def clutter(rng):
    """Noise of several sizes, and boxes of any colour, turned and of any size."""
    picture = np.zeros((HEIGHT, WIDTH, 3))
    for size in (4, 12, 32):
        coarse = rng.random((HEIGHT // size + 2, WIDTH // size + 2, 3))
        picture += np.kron(coarse, np.ones((size, size, 1)))[:HEIGHT, :WIDTH] / 3.0
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    for _ in range(rng.integers(8, 20)):
        add_box(picture, x, y, rng, rng.uniform(4.0, 30.0, size=2))
    return picture


def add_box(picture, x, y, rng, half):
    """Paint a turned box, plain or striped."""
    turn, (cx, cy) = rng.uniform(0.0, np.pi), rng.uniform([0.0, 0.0], [WIDTH, HEIGHT])
    along = (x - cx) * np.cos(turn) + (y - cy) * np.sin(turn)
    across = (y - cy) * np.cos(turn) - (x - cx) * np.sin(turn)
    inside = (abs(along) < half[0]) & (abs(across) < half[1])
    stripes = 1.0 + 0.4 * np.sin(along * rng.uniform(0.2, 1.5)) * (rng.random() < 0.5)
    picture[inside] = (stripes[..., None] * rng.random(3))[inside]


def crop(photograph, rng):
    """Part of a photograph, in the size of the pictures."""
    height, width = photograph.shape[:2]
    least = max(WIDTH / width, HEIGHT / height)
    factor = rng.uniform(least, max(1.0, least))
    wide, high = min(round(WIDTH / factor), width), min(round(HEIGHT / factor), height)
    left, top = rng.integers(width - wide + 1), rng.integers(height - high + 1)
    part = Image.fromarray(photograph[top : top + high, left : left + wide])
    return np.asarray(part.resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR)) / 255.0


def one(rng, shape, photographs):
    """An image, its box and its angle."""
    angle = rng.uniform(0.0, 2.0 * np.pi)
    elevation = np.deg2rad(rng.uniform(8.0, 25.0))
    light = rng.normal(size=3) + np.array([0.5, 0.0, 1.5])
    surfaces, shift = SHAPES[shape](rng), np.array([0.0, 0.0, 0.45 if shape == "car" else 0.75])
    surfaces = [s._replace(corners=s.corners - shift) for s in surfaces]
    fine = FINER * np.array([WIDTH, HEIGHT])
    for _ in range(100):
        scale = rng.uniform(0.17, 0.36) * fine[0]
        centre = rng.uniform(0.2, 0.8, size=2) * fine
        colours, there = draw(
            surfaces, angle, elevation, rng.uniform(3.5, 7.0), scale, centre,
            light / np.linalg.norm(light), rng,
        )  # fmt: skip
        rows, columns = np.flatnonzero(there.any(axis=1)), np.flatnonzero(there.any(axis=0))
        ends = rows[[0, -1]], columns[[0, -1]]
        if all(
            first > 0 and last < n - 1 for (first, last), n in zip(ends, fine[::-1], strict=True)
        ):
            break
    else:
        raise RuntimeError("no place for the shape in the picture")
    box = np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]) / FINER
    grouped = (HEIGHT, FINER, WIDTH, FINER)
    share = there.reshape(grouped).mean(axis=(1, 3))[..., None]
    drawn = (colours * there[..., None]).reshape(*grouped, 3).mean(axis=(1, 3))
    back = crop(photographs[rng.integers(len(photographs))], rng) if photographs else clutter(rng)
    picture = back * (1.0 - share) + drawn
    if rng.random() < 0.3:
        y, x = np.mgrid[:HEIGHT, :WIDTH]
        add_box(picture, x, y, rng, rng.uniform(3.0, 9.0, size=2))
    picture = (picture - 0.5) * rng.uniform(0.6, 1.1) + 0.5 + rng.uniform(-0.1, 0.1)
    picture += rng.uniform(0.01, 0.05) * rng.normal(size=picture.shape)
    return (np.clip(picture, 0.0, 1.0) * 255.0).astype(np.uint8), box, angle


def make(n, seed=0, shape="car", photographs=()):
    """Make a set of images.

    Parameters
    ----------
    n : int
    seed : int
        Image k of a seed is the same whatever n is.
    shape : {"car", "chair"}
    photographs : sequence of ndarray
        Backgrounds are crops of these; clutter is generated without them.
    """
    made = [one(np.random.default_rng([seed, k]), shape, photographs) for k in range(n)]
    images, boxes, angles = zip(*made, strict=True)
    return Posed(list(images), np.array(boxes), np.array(angles))


def write(folder, posed):
    """Write images, and what is in them."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rows = []
    for k, (image, box, angle) in enumerate(zip(*posed, strict=True)):
        name = f"images/{k:05d}.png"
        Image.fromarray(image).save(folder / name)
        rows.append({"file": name, "box": box.tolist(), "angle": float(np.rad2deg(angle))})
    (folder / "poses.json").write_text(json.dumps({"images": rows}, indent=1))


def read(folder):
    """The set that `write` wrote."""
    rows = json.loads((folder / "poses.json").read_text())["images"]
    return Posed(
        [read_image(folder / row["file"]) for row in rows],
        np.array([row["box"] for row in rows]),
        np.deg2rad([row["angle"] for row in rows]),
    )


def photographs_in(folder):
    """All images of a folder; none without one."""
    return [] if folder is None else [read_image(path) for path in list_images(folder)]


def main() -> None:
    """Write a set."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--n", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--shape", choices=sorted(SHAPES), default="car")
    arguments.add_argument("--photographs", type=Path, help="folder of images for backgrounds")
    options = arguments.parse_args()
    photographs = photographs_in(options.photographs)
    write(options.folder, make(options.n, options.seed, options.shape, photographs))


if __name__ == "__main__":
    main()
