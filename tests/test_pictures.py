"""Pictures: what is drawn lies where it should, and can be read."""

import sys

import numpy as np
import pytest

from taut.errors import InvalidData
from taut.metrics import PrecisionRecall, overlap_recall, precision_recall
from taut.vision.boxes import Boxes, Detections
from taut.vision.joints import FoundJoints

matplotlib = pytest.importorskip(
    "matplotlib", reason="matplotlib is not installed: pip install 'taut[plot]'"
)
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.collections import LineCollection  # noqa: E402
from matplotlib.patches import Rectangle  # noqa: E402

from taut.vision.pictures import (  # noqa: E402
    plot_boxes,
    plot_image_grid,
    plot_joint_grid,
    plot_joints,
    plot_overlap_recall,
    plot_parts,
    plot_precision_recall,
    plot_template,
)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def image(height=120, width=160):
    return np.full((height, width, 3), 128, dtype=np.uint8)


def truths(*edges, classes=None, ignored=()):
    edges = np.array(edges, dtype=float).reshape(-1, 4)
    names = np.array(classes or ["cat"] * len(edges))
    return Boxes(edges, names, np.isin(np.arange(len(edges)), ignored))


def detections(*edges, scores, classes=None):
    edges, names, _ = truths(*edges, classes=classes)
    return Detections(edges, names, np.array(scores, dtype=float))


def rectangles(ax):
    """Edges of what is drawn, and in which style."""
    return [
        (*box.get_xy(), box.get_x() + box.get_width(), box.get_y() + box.get_height())
        for box in ax.patches
        if isinstance(box, Rectangle)
    ]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_boxes_lie_where_they_are():
    there, found = truths([10, 20, 60, 80]), detections([15, 20, 70, 90], scores=[0.5])
    ax = plot_boxes(image(), there, found)
    assert set(rectangles(ax)) == {(10, 20, 60, 80), (15, 20, 70, 90)}
    # The whole image from its upper left corner, whatever boxes reach beyond it.
    assert ax.get_xlim() == (0, 160)
    assert ax.get_ylim() == (120, 0)
    assert texts(ax) == ["cat 0.50"]
    beyond = plot_boxes(image(), truths([-50, -50, 500, 500]))
    assert beyond.get_xlim() == (0, 160)
    assert texts(beyond) == ["cat"]


def test_boxes_are_taken_in_the_forms_that_fit_takes():
    given = [("cat", 10, 20, 40, 60), ("dog", 0, 0, 5, 5)]
    wanted = {(10, 20, 40, 60), (0, 0, 5, 5)}
    assert set(rectangles(plot_boxes(image(), given))) == wanted
    assert set(rectangles(plot_boxes(image(), np.array([row[1:] for row in given])))) == wanted
    figure = plot_image_grid([image(), image()], [given, []])
    assert set(rectangles(figure.axes[0])) == wanted
    assert not rectangles(figure.axes[1])


def test_only_the_best_are_drawn():
    boxes = [[10 * k, 5, 10 * k + 8, 20] for k in range(8)]
    found = detections(*boxes, scores=[0.1, 0.9, 0.3, 0.5, 0.7, 0.2, 0.4, 0.6])
    assert set(rectangles(plot_boxes(image(), None, found, top=2))) == {
        (10, 5, 18, 20), (40, 5, 48, 20),
    }  # fmt: skip
    assert texts(plot_boxes(image(), None, found, top=2)) == ["cat 0.90", "cat 0.70"]
    assert len(set(rectangles(plot_boxes(image(), None, found)))) == 5
    assert len(set(rectangles(plot_boxes(image(), None, found, top=None)))) == 8


def test_classes_have_colours_of_their_own():
    there = truths([5, 5, 50, 50], [60, 60, 90, 90], classes=["cat", "dog"])
    found = detections([5, 5, 50, 50], [60, 60, 90, 90], scores=[1, 2], classes=["cat", "dog"])
    ax = plot_boxes(image(), there, found)
    grounds = {t.get_text(): t.get_bbox_patch().get_facecolor() for t in ax.texts}
    assert sorted(grounds) == ["cat", "cat 1.00", "dog", "dog 2.00"]
    assert grounds["cat"] == grounds["dog"]
    assert grounds["cat 1.00"] != grounds["dog 2.00"]


@pytest.mark.parametrize("shape", [(120, 160), (300, 150), (60, 200)])
def test_labels_are_within_the_image_and_apart(shape):
    rng = np.random.default_rng(0)
    height, width = shape
    corner = rng.uniform(-10, 0.6, (4, 2)) * [width, height] * [0.1, 0.1] + [width / 3, height / 3]
    edges = np.hstack([corner, corner + [width / 2, height / 2]])
    edges = np.vstack([edges, [0, 0, width, height], [width - 4, 0, width, 4]])
    found = detections(*edges, scores=np.linspace(-1, 1, 6), classes=["cat", "dog"] * 3)
    ax = plot_boxes(image(*shape), None, found)
    ax.figure.canvas.draw()
    inside = ax.get_window_extent()
    extents = [text.get_window_extent() for text in ax.texts]
    assert len(extents) == 5
    for k, extent in enumerate(extents):
        assert extent.x0 >= inside.x0 - 1
        assert extent.x1 <= inside.x1 + 1
        assert extent.y0 >= inside.y0 - 1
        assert extent.y1 <= inside.y1 + 1
        assert not any(extent.overlaps(other) for other in extents[:k])


def test_own_axes_are_drawn_in():
    figure, axes = plt.subplots(1, 2)
    assert plot_boxes(image(), ax=axes[1]) is axes[1]
    curve = PrecisionRecall(np.array([1.0]), np.array([0.5]), np.array([0.9]))
    assert plot_precision_recall({"a": curve}, ax=axes[0]) is axes[0]
    assert plt.get_fignums() == [figure.number]


def test_the_grid_shows_the_first_images():
    images = [image(90 + 5 * k, 120) for k in range(18)]
    there = [truths([k, 10, 60, 60], ignored=[0] * (k == 1)) for k in range(18)]
    found = [detections([20, k, 60, 60], scores=[k]) for k in range(18)]
    figure = plot_image_grid(images, there, found)
    shown = [ax for ax in figure.axes if ax.images]
    assert len(shown) == 16
    for k, ax in enumerate(shown):
        assert set(rectangles(ax)) == {(k, 10, 60, 60), (20, k, 60, 60)}
    assert [t.get_text() for t in figure.legends[0].texts] == ["true", "ignored", "found: cat"]
    five = plot_image_grid(images, columns=3, limit=5)
    assert len([ax for ax in five.axes if ax.images]) == 5
    assert not five.legends
    assert len(plot_image_grid(images[:2]).axes) == 2


def test_precision_recall_is_drawn_with_its_area():
    there = [truths([0, 0, 10, 10], [20, 0, 30, 10])]
    found = [detections([50, 50, 60, 60], [0, 0, 10, 9], scores=[0.9, 0.4])]
    curve = precision_recall(found, there)
    nothing = precision_recall([detections(scores=[])], there)
    ax = plot_precision_recall({"hog": curve, "none": nothing})
    names = [t.get_text() for t in ax.get_legend().texts]
    assert names == ["hog (average precision 0.25)", "none (average precision 0.00)"]
    (alone,) = plot_precision_recall(curve).get_legend().texts
    assert alone.get_text() == "(average precision 0.25)"
    # Below the thick line is the average precision.
    x, y = ax.lines[0].get_data()
    assert np.diff(x) @ y[1:] == pytest.approx(curve.area)


def test_overlap_recall_is_drawn_with_its_area():
    there = [truths([0, 0, 10, 10], [20, 0, 30, 10])]
    curve = overlap_recall([detections([0, 0, 10, 5], scores=[0.9])], there)
    ax = plot_overlap_recall({"windows": curve})
    assert [t.get_text() for t in ax.get_legend().texts] == ["windows (area 0.25)"]
    x, y = ax.lines[-1].get_data()
    assert np.diff(x) @ y[:-1] == pytest.approx(curve.area)


def strokes(panel):
    return next(c for c in panel.collections if isinstance(c, LineCollection))


@pytest.mark.parametrize("channel", range(27))
def test_strokes_are_across_the_gradient(channel):
    template = np.zeros((3, 2, 31))
    template[2, 1, channel] = 2.0
    template[0, 0, channel] = -1.0
    positive, negative = plot_template(template).child_axes
    angle = np.radians(20.0 * channel) if channel < 18 else np.radians(20.0 * (channel - 18))
    for panel, middle, shade in ((positive, (1.5, 2.5), 1.0), (negative, (0.5, 0.5), 0.5)):
        (stroke,) = strokes(panel).get_segments()
        np.testing.assert_allclose(stroke.mean(axis=0), middle)
        along = stroke[1] - stroke[0]
        # To the right and down, as images are: y of the panel grows downwards.
        assert along @ [np.cos(angle), np.sin(angle)] == pytest.approx(0.0, abs=1e-12)
        assert panel.yaxis_inverted()
        np.testing.assert_allclose(strokes(panel).get_colors()[0, :3], shade)


def test_directions_of_an_edge_add_up():
    template = np.zeros((1, 1, 31))
    template[0, 0, [2, 11, 20]] = [1.0, 2.0, 3.0]
    template[0, 0, [4, 13]] = [3.0, -5.0]
    positive, negative = plot_template(template).child_axes
    np.testing.assert_allclose(strokes(positive).get_colors()[:, 0], [0.5, 1.0])
    np.testing.assert_allclose(strokes(negative).get_colors()[:, 0], [5 / 6])


def test_colours_are_those_that_weights_prefer():
    colours = np.array([[[1.0, 0.5, 0.5], [0.5, 0.5, 0.5]], [[0.4, 0.7, 0.2], [0.0, 0.1, 0.9]]])
    red, green, blue = np.moveaxis(colours, 2, 0)
    signed = [colours.mean(axis=2) - 0.5, red - green, (red + green) / 2 - blue]
    halves = [np.maximum(sign * values, 0.0) for values in signed for sign in (1, -1)]
    pairs = np.zeros((2, 2, 37))
    pairs[:, :, 31:] = np.stack(halves, axis=2)
    three = np.zeros((2, 2, 34))
    three[:, :, 31:] = colours - 0.5
    for template in (pairs, three):
        panels = plot_template(template).child_axes
        np.testing.assert_allclose(panels[2].images[0].get_array(), colours)
    for n_channels in (27, 31, 32, 40):
        assert len(plot_template(np.zeros((2, 2, n_channels))).child_axes) == 2


def segments(ax, style):
    """Ends of the lines of a style that are not dark grounds."""
    return {
        tuple(np.concatenate([*line.get_data()]).tolist())
        for line in ax.lines
        if line.get_linestyle() == style and line.get_color() != "black"
    }


def test_joints_lie_where_they_are():
    truth = [[10, 20], [40, 20], [np.nan, np.nan]]
    found = FoundJoints(
        np.array([[[12, 20], [40, 25], [70, 30]], [[1, 1], [2, 2], [3, 3]]], dtype=float),
        np.array([[True, True, True], [True, False, True]]),
        np.array([1.0, 0.5]),
    )
    ax = plot_joints(image(), [(0, 1), (1, 2)], truth, found)
    assert (10, 40, 20, 20) in segments(ax, "--")
    assert {(12, 40, 20, 25), (40, 70, 25, 30)} <= segments(ax, "-")
    assert not any(1.0 in line and 2.0 in line for line in segments(ax, "-"))
    assert ax.get_xlim() == (0, 160)
    assert ax.get_ylim() == (120, 0)


def test_the_grid_of_joints_shows_one_object_in_each_image():
    joints = np.arange(18 * 4, dtype=float).reshape(18, 2, 2)
    found = FoundJoints(joints, np.ones((18, 2), dtype=bool), np.zeros(18))
    figure = plot_joint_grid([image()] * 18, [(0, 1)], joints, found)
    assert len(figure.axes) == 16
    for k, ax in enumerate(figure.axes):
        (own,) = segments(ax, "-")
        assert own == tuple(joints[k].T.ravel())


def test_parts_are_drawn_where_they_are():
    templates = np.zeros((2, 3, 2, 31))
    templates[0, 0, 0, 0] = templates[1, 2, 1, 0] = 1.0
    ax = plot_parts(templates, [[0, 0], [10, 4]], [(0, 1)])
    middles = [c.get_segments()[0].mean(axis=0) for c in ax.collections]
    np.testing.assert_allclose(middles, [[-0.5, -1.0], [10.5, 5.0]])
    assert ax.yaxis_inverted()
    np.testing.assert_allclose(ax.lines[0].get_data(), [[0, 10], [0, 4]])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plot_boxes(image(), truths([0, 0, np.nan, 1])), "truths.edges contains NaN"),
        (lambda: plot_boxes(image(), [1, 2]), "image 0, box 0 is 1: give a list of boxes"),
        (lambda: plot_boxes(image(), truths([0, 0, 1, 1])._replace(classes=["a", "b"])), "four"),
        (lambda: plot_boxes(image(), top=0), "top = 0: give a whole number"),
        (lambda: plot_boxes("nowhere.png"), "nowhere.png"),
        (lambda: plot_image_grid([image()], [truths()] * 2), "truths has 2 images, images has 1"),
        (lambda: plot_image_grid([]), "images is empty"),
        (lambda: plot_image_grid([image()], columns=0), "columns = 0: give a whole number"),
        (
            lambda: plot_joints(image(), [(0, 2)], [[1, 2], [3, 4]]),
            "joints 0 to 2, and",
        ),
        (lambda: plot_joints(image(), [(0, 1)], [1, 2]), r"truth has shape \(2,\)"),
        (lambda: plot_joint_grid([], []), "images is empty"),
        (lambda: plot_joint_grid([image()], [], [[[1, 2]]] * 2), "truths is of 2 images"),
        (lambda: plot_parts(np.zeros((3, 3, 31)), [[0, 0]]), "templates has the shape"),
        (lambda: plot_parts(np.zeros((1, 3, 3, 31)), [0, 0]), "x and y of each of the 1 parts"),
        (
            lambda: plot_parts(np.zeros((1, 3, 3, 31)), [[0, 0]], [(0, 1)]),
            "limbs has joints 0 to 1, and there are 1",
        ),
        (lambda: plot_joints(image(), [("a", "b")], [[1, 2], [3, 4]]), "the numbers of two joints"),
        (lambda: plot_precision_recall({}), "give a dict of names and curves"),
        (lambda: plot_overlap_recall([1]), "give a dict of names and curves"),
        (lambda: plot_template(np.zeros((3, 3))), r"template has the shape \(3, 3\)"),
        (lambda: plot_template(np.zeros((3, 3, 9))), "with at least 27 channels"),
        (lambda: plot_template(np.full((3, 3, 31), np.nan)), "template contains NaN"),
    ],
)
def test_what_cannot_be_drawn_is_refused(call, words):
    with pytest.raises((InvalidData, FileNotFoundError), match=words):
        call()
    assert not plt.get_fignums()


def test_without_matplotlib_it_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'taut\[plot\]'"):
        plot_boxes(image())
