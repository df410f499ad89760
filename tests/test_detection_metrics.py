"""Measures of boxes: cases by hand, definitions written a second time, and COCO's own code."""

import contextlib
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taut.errors import InvalidData, InvalidType
from taut.metrics import (
    average_precision,
    bootstrap_interval,
    coco_average_precision,
    localisation_accuracy,
    mean_average_precision,
    mean_best_overlap,
    overlap_recall,
    precision_recall,
    suppress,
)
from taut.vision.boxes import Boxes, Detections

SEEDS = st.integers(0, 2**32 - 1)


def truth(*edges, classes="cat", ignored=()):
    edges = np.array(edges, dtype=float).reshape(-1, 4)
    names = np.full(len(edges), classes) if isinstance(classes, str) else np.array(classes)
    return Boxes(edges, names, np.isin(np.arange(len(edges)), ignored))


def found(*edges, scores, classes="cat"):
    edges, names, _ = truth(*edges, classes=classes)
    return Detections(edges, names, np.array(scores, dtype=float))


def iou(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0.0) * max(height, 0.0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common
    return common / union if union > 0 else 0.0


def random_boxes(rng, n, size=100.0):
    corner = rng.uniform(0, size * 0.7, (n, 2))
    return np.hstack([corner, corner + rng.uniform(5, size * 0.3, (n, 2))])


def random_images(seed, n_images=6, classes=("cat", "dog", "owl"), crowds=0.2, most=6):
    """Detections near truths and elsewhere; no two scores are equal."""
    rng = np.random.default_rng(seed)
    detections, truths = [], []
    for _ in range(n_images):
        n = int(rng.integers(0, most))
        edges = random_boxes(rng, n)
        names = rng.choice(classes, n)
        truths.append(Boxes(edges, names, rng.random(n) < crowds))
        near = np.repeat(edges, rng.integers(0, 4, n), axis=0)
        near = near + rng.normal(0, 2.0, near.shape)
        near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1.0)
        boxes = np.vstack([near, random_boxes(rng, int(rng.integers(0, 4)))])
        scores = rng.random(len(boxes))
        detections.append(Detections(boxes, rng.choice(classes, len(boxes)), scores))
    # One truth of each class that counts.
    row = truth(*random_boxes(rng, len(classes)), classes=list(classes))
    return [*detections, found(scores=[])], [*truths, row]


# Two cats in the first image, one in the second; a hit, a false alarm, the same cat once more, and
# a hit in the second image.
HAND = (
    [
        found([0, 0, 10, 9], [50, 50, 60, 60], [0, 1, 10, 10], scores=[0.9, 0.8, 0.7]),
        found([1, 0, 10, 10], scores=[0.6]),
    ],
    [truth([0, 0, 10, 10], [20, 0, 30, 10]), truth([0, 0, 10, 10])],
)


def test_by_hand():
    precision, recall, scores = precision_recall(*HAND)
    np.testing.assert_allclose(precision, [1, 1 / 2, 1 / 3, 2 / 4])
    np.testing.assert_allclose(recall, [1 / 3, 1 / 3, 1 / 3, 2 / 3])
    np.testing.assert_allclose(scores, [0.9, 0.8, 0.7, 0.6])
    # Best precision from recall 0 on is 1, from 1/3 on 1/2, from 2/3 on 0.
    assert average_precision(*HAND) == pytest.approx(1 / 3 + 1 / 6)
    assert precision_recall(*HAND).area == average_precision(*HAND)
    # Of 0, 0.1, ... four points are at most 1/3, and three more at most 2/3.
    assert average_precision(*HAND, points=11) == pytest.approx((4 * 1 + 3 * 0.5) / 11)
    # With 0.95 neither hit is one.
    assert average_precision(*HAND, overlap=0.95) == 0.0


def test_detections_of_equal_score_are_reported_together():
    ties = [found([0, 0, 10, 10], [50, 50, 60, 60], scores=[0.5, 0.5])]
    curve = precision_recall(ties, [truth([0, 0, 10, 10])])
    assert [values.tolist() for values in curve] == [[0.5], [1.0], [0.5]]


def test_a_truth_goes_to_the_higher_score_and_a_detection_to_the_truth_it_overlaps_most():
    there = [truth([0, 0, 10, 10], [0, 2, 10, 12])]
    # The first overlaps both by more than half, the second one most, and
    # leaves the other.
    both = [found([0, 1.5, 10, 11.5], [0, 0, 10, 10], scores=[0.9, 0.8])]
    assert average_precision(both, there) == 1.0
    # Where its best truth is taken, a detection is given the next.
    again = [found([0, 2, 10, 12], [0, 1.5, 10, 11.5], scores=[0.9, 0.8])]
    assert average_precision(again, there) == 1.0


def test_ignored_truths_are_neither_hit_nor_missed():
    there = [truth([0, 0, 10, 10], [20, 0, 30, 10], ignored=[1])]
    hit = [0, 0, 10, 10]
    assert average_precision([found(hit, scores=[0.1])], there) == 1.0
    # Any number of detections may lie on one.
    twice = [found([20, 0, 30, 10], [20, 0, 30, 9], hit, scores=[0.9, 0.8, 0.1])]
    assert precision_recall(twice, there).scores.tolist() == [0.1]
    assert average_precision(twice, there) == coco_average_precision(twice, there).mean == 1.0
    # A part of one overlaps it little, but is in the crowd.
    part = [found([20, 0, 24, 4], hit, scores=[0.9, 0.1])]
    assert average_precision(part, there) == 1.0
    assert coco_average_precision(part, there).mean == pytest.approx(1.0)


def test_classes_are_measured_apart():
    there = [truth([0, 0, 10, 10], [20, 0, 30, 10], classes=["cat", "dog"])]
    boxes = [found([0, 0, 10, 10], [20, 0, 30, 10], scores=[0.5, 0.9], classes=["cat", "cat"])]
    assert average_precision(boxes, there, class_name="cat") == 0.5
    assert average_precision(boxes, there, class_name="dog") == 0.0
    assert mean_average_precision(boxes, there) == 0.25
    with pytest.raises(InvalidData, match=r"truths are of 2 classes: give one of \['cat', 'dog'\]"):
        average_precision(boxes, there)
    with pytest.raises(InvalidData, match="class_name = 'cow': no truth of this class counts"):
        average_precision(boxes, there, class_name="cow")


def share(box, region):
    """How much of a box lies in a region."""
    width = max(min(box[2], region[2]) - max(box[0], region[0]), 0.0)
    height = max(min(box[3], region[3]) - max(box[1], region[1]), 0.0)
    return width * height / ((box[2] - box[0]) * (box[3] - box[1]))


def plain_average_precision(detections, truths, overlap, name, points=None):
    """By the definition, detection by detection."""
    listed, n_truths = [], 0
    for i, there in enumerate(truths):
        n_truths += sum(c == name and not g for c, g in zip(there.classes, there.ignored))
        boxes = detections[i]
        listed += [(-s, i, e) for e, c, s in zip(*boxes) if c == name]
    taken, marks = set(), []
    for _, i, edges in sorted(listed, key=lambda entry: entry[0]):
        choices, ignored = [], False
        for j, (box, kind, skip) in enumerate(zip(*truths[i])):
            if kind == name and skip:
                ignored |= share(edges, box) >= overlap
            elif kind == name and iou(edges, box) >= overlap and (i, j) not in taken:
                choices.append((iou(edges, box), j))
        if choices:
            taken.add((i, max(choices)[1]))
        if choices or not ignored:
            marks.append(bool(choices))
    curve = [(sum(marks[:k]) / n_truths, sum(marks[:k]) / k) for k in range(1, len(marks) + 1)]

    def best(at):
        return max((p for r, p in curve if r >= at), default=0.0)

    if points is not None:
        return np.mean([best(r) for r in np.linspace(0, 1, points)])
    steps = [k / n_truths for k in range(1, n_truths + 1)]
    return np.mean([best(r) for r in steps])


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.sampled_from([0.3, 0.5, 0.75]), st.sampled_from([None, 11, 101]))
def test_average_precision_is_its_definition(seed, overlap, points):
    detections, truths = random_images(seed)
    values = [
        plain_average_precision(detections, truths, overlap, name, points)
        for name in ("cat", "dog", "owl")
    ]
    for name, value in zip(("cat", "dog", "owl"), values):
        measured = average_precision(detections, truths, overlap, name, points=points)
        assert measured == pytest.approx(value, abs=1e-12)
    mean = mean_average_precision(detections, truths, overlap, points=points)
    assert mean == pytest.approx(np.mean(values))


def pycocotools_table(detections, truths, names):
    """What pycocotools finds: (n_overlaps, n_classes)."""
    coco = pytest.importorskip(
        "pycocotools.coco", reason="pycocotools is not installed: pip install pycocotools"
    )
    evaluation = pytest.importorskip("pycocotools.cocoeval")

    def as_coco(edges):
        left, top, right, bottom = map(float, edges)
        return {
            "bbox": [left, top, right - left, bottom - top],
            "area": (right - left) * (bottom - top),
        }

    listed = [
        as_coco(box) | {
            "image_id": i + 1, "category_id": names.index(name) + 1, "iscrowd": int(crowd),
        }
        for i, there in enumerate(truths)
        for box, name, crowd in zip(*there)
    ]  # fmt: skip
    results = [
        as_coco(box) | {
            "image_id": i + 1, "category_id": names.index(name) + 1, "score": float(score),
        }
        for i, boxes in enumerate(detections)
        for box, name, score in zip(*boxes)
    ]  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        known = coco.COCO()
        known.dataset = {
            "info": {},
            "images": [{"id": i + 1} for i in range(len(truths))],
            "categories": [{"id": k + 1, "name": name} for k, name in enumerate(names)],
            "annotations": [entry | {"id": k + 1} for k, entry in enumerate(listed)],
        }
        known.createIndex()
        run = evaluation.COCOeval(known, known.loadRes(results), "bbox")
        run.evaluate()
        run.accumulate()
        run.summarize()
    # Overlaps, points, classes, all sizes, 100 detections.
    return run.eval["precision"][:, :, :, 0, 2].mean(axis=1), run.stats[0]


@pytest.mark.parametrize("seed", range(6))
def test_coco_average_precision_is_that_of_pycocotools(seed):
    names = ["cat", "dog", "owl"]
    # In the last ones more than 100 detections of a class are in an image.
    most, n_images = (90, 2) if seed > 3 else (8, 20)
    detections, truths = random_images(seed, n_images, names, most=most)
    table, mean = pycocotools_table(detections, truths, names)
    result = coco_average_precision(detections, truths)
    assert result.mean == pytest.approx(mean, abs=1e-12)
    places = [names.index(name) for name in result.by_class]
    np.testing.assert_allclose(result.table, table.T[places], atol=1e-12)
    for name, value in result.by_class.items():
        assert value == pytest.approx(table[:, names.index(name)].mean())
    np.testing.assert_allclose(list(result.by_overlap), np.arange(50, 100, 5) / 100)
    np.testing.assert_allclose(list(result.by_overlap.values()), table.mean(axis=1), atol=1e-12)


def test_coco_counts_the_best_hundred_of_each_image_and_class():
    far = np.arange(100.0)[:, None] * 20 + [100, 0, 110, 10]
    there = [truth([0, 0, 10, 10])]
    boxes = [found(*far, [0, 0, 10, 10], scores=np.linspace(1, 0, 101))]
    assert coco_average_precision(boxes, there).mean == 0.0
    measured = coco_average_precision(boxes, there, max_detections=101).mean
    assert measured == pytest.approx(1 / 101)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_only_the_order_of_scores_matters(seed):
    detections, truths = random_images(seed)
    other = [d._replace(scores=np.expm1(5.0 * d.scores) - 3.0) for d in detections]
    for metric in (mean_average_precision, lambda d, t: coco_average_precision(d, t).mean):
        assert metric(other, truths) == metric(detections, truths)
    # That of boxes within an image, and that of images, does not.
    rng = np.random.default_rng(seed)
    mixed = [Detections(*(a[order] for a in d)) for d in detections
             for order in [rng.permutation(len(d.scores))]]  # fmt: skip
    turn = rng.permutation(len(truths))
    again = [mixed[i] for i in turn], [truths[i] for i in turn]
    value = mean_average_precision(detections, truths)
    assert mean_average_precision(*again) == pytest.approx(value)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_perfect_detections_give_one(seed):
    _, truths = random_images(seed)
    rng = np.random.default_rng(seed)
    perfect = [Detections(t.edges, t.classes, rng.random(len(t.edges))) for t in truths]
    assert mean_average_precision(perfect, truths) == pytest.approx(1.0)
    assert coco_average_precision(perfect, truths).mean == pytest.approx(1.0)
    assert overlap_recall(perfect, truths).area == pytest.approx(1.0)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_false_alarms_never_help_and_lower_ones_than_all_do_not_matter(seed):
    detections, truths = random_images(seed)
    rng = np.random.default_rng(seed)

    def worse(score):
        return [
            Detections(
                np.vstack([d.edges, [500, 500, 510, 510]]),
                np.append(d.classes, rng.choice(["cat", "dog", "owl"])),
                np.append(d.scores, score()),
            )
            for d in detections
        ]

    value = mean_average_precision(detections, truths)
    assert mean_average_precision(worse(rng.random), truths) <= value + 1e-12
    assert mean_average_precision(worse(lambda: -1.0), truths) == pytest.approx(value)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_a_higher_overlap_is_harder(seed):
    # One box in each image: of several, another overlap may change which finds what.
    rng = np.random.default_rng(seed)
    edges = random_boxes(rng, 8)
    truths = [truth(box) for box in edges]
    boxes = [found(box + rng.uniform(-3, 0, 4), scores=rng.random(1)) for box in edges]
    values = [average_precision(boxes, truths, overlap) for overlap in np.linspace(0.1, 1, 10)]
    assert all(np.diff(values) <= 1e-12)


def test_nothing_found_gives_zero():
    nothing, there = [found(scores=[])] * 2, HAND[1]
    curve = precision_recall(nothing, there)
    assert all(len(values) == 0 for values in curve)
    assert average_precision(nothing, there) == curve.area == 0.0
    assert average_precision(nothing, there, points=11) == 0.0
    assert coco_average_precision(nothing, there).mean == 0.0
    assert mean_average_precision(nothing, there) == 0.0
    assert localisation_accuracy(nothing, there) == mean_best_overlap(nothing, there) == 0.0
    assert overlap_recall(nothing, there).area == 0.0


def test_bootstrap_is_that_of_fresh_lists():
    detections, truths = random_images(3, n_images=12)

    def metric(boxes, there):
        return mean_average_precision(boxes, there)

    def fresh(boxes, there):
        return mean_average_precision(list(boxes), list(there))

    found_first, found_fresh = (
        bootstrap_interval(m, detections, truths, n=50) for m in (metric, fresh)
    )
    np.testing.assert_allclose(found_first, found_fresh)
    assert found_first.value == metric(detections, truths)
    assert bootstrap_interval(metric, detections, truths, n=50) == found_first
    assert bootstrap_interval(metric, detections, truths, n=50, random_state=1) != found_first
    wider = bootstrap_interval(metric, detections, truths, n=50, level=0.99)
    assert wider.low <= found_first.low <= found_first.high <= wider.high


def test_bootstrap_of_a_share_is_binomial():
    # 30 of 100 images are right: a sample's share has the deviation sqrt(0.3 * 0.7 / 100).
    there = [truth([0, 0, 10, 10])] * 100
    boxes = [found([0, 0, 10, 10 if i < 30 else 1], scores=[0.5]) for i in range(100)]
    interval = bootstrap_interval(localisation_accuracy, boxes, there, n=2000, level=0.9)
    half = 1.645 * np.sqrt(0.3 * 0.7 / 100)
    assert interval.value == 0.3
    assert interval.low == pytest.approx(0.3 - half, abs=0.02)
    assert interval.high == pytest.approx(0.3 + half, abs=0.02)


def test_bootstrap_leaves_samples_without_truths_out():
    one = [found([0, 0, 10, 10], scores=[0.5])] * 2
    interval = bootstrap_interval(average_precision, one, [truth([0, 0, 10, 10]), truth()], n=100)
    # In the image without a truth there is a false alarm of the same score.
    assert interval.value == 0.5
    assert 0.5 <= interval.low <= interval.high == 1.0
    rare = [truth([0, 0, 10, 10]), *(truth() for _ in range(50))]
    boxes = [found([0, 0, 10, 10], scores=[0.5])] * 51
    with pytest.raises(InvalidData, match=r"of 20 samples of the images cannot be measured: no im"):
        bootstrap_interval(only_in_all(51), boxes, rare, n=20)


def only_in_all(n_images):
    """A metric that few samples have: all images must be different ones."""

    def metric(boxes, there):
        whole = len({id(box.edges) for box in there}) == n_images
        return average_precision(boxes, there if whole else [truth()] * n_images)

    return metric


def test_overlap_recall_by_hand():
    there = [truth([0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10], ignored=[2]), truth()]
    boxes = [
        found([0, 0, 10, 5], [20, 0, 30, 8], [0, 0, 10, 9], scores=[0.9, 0.8, 0.1], classes="?"),
        found([0, 0, 1, 1], scores=[0.3]),
    ]
    curve = overlap_recall(boxes, there)
    np.testing.assert_allclose(curve.overlap, [0, 0.8, 0.9, 1])
    assert curve.recall.tolist() == [1.0, 0.5, 0.0, 0.0]
    assert curve.area == pytest.approx(0.85)
    assert overlap_recall(boxes, there, top=2).area == pytest.approx((0.5 + 0.8) / 2)
    assert overlap_recall(boxes, there, top=1).area == pytest.approx(0.5 / 2)
    assert overlap_recall(boxes, there, top=None).area == pytest.approx(0.85)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.integers(1, 5))
def test_overlap_recall_is_its_definition(seed, top):
    proposals, truths = random_images(seed)
    best = []
    for boxes, there in zip(proposals, truths):
        first = sorted(range(len(boxes.scores)), key=lambda k: -boxes.scores[k])[:top]
        for edges, _, ignored in zip(*there):
            if not ignored:
                best.append(max((iou(edges, boxes.edges[k]) for k in first), default=0.0))
    curve = overlap_recall(proposals, truths, top)
    assert curve.area == pytest.approx(np.mean(best))
    assert curve.recall[:-1] @ np.diff(curve.overlap) == pytest.approx(curve.area)
    for at in np.random.default_rng(seed).random(20):
        share = curve.recall[np.searchsorted(curve.overlap, at, side="right") - 1]
        assert share == pytest.approx(np.mean(np.array(best) > at))


def plain_suppress(edges, scores, threshold, top):
    kept = []
    for k in sorted(range(len(scores)), key=lambda k: -scores[k]):
        if len(kept) < top and all(iou(edges[k], edges[j]) <= threshold for j in kept):
            kept.append(k)
    return kept


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(0, 60), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.sampled_from([3, 99]))
def test_suppress_is_the_plain_loop(seed, n, threshold, top):
    rng = np.random.default_rng(seed)
    # Whole numbers: boxes and scores are often equal.
    corner = rng.integers(0, 20, (n, 2))
    edges = np.hstack([corner, corner + rng.integers(0, 12, (n, 2))])
    scores = rng.integers(0, 10, n)
    kept = suppress(edges, scores, threshold, top).tolist()
    assert kept == plain_suppress(edges.tolist(), scores.tolist(), threshold, top)


def test_localisation_by_hand():
    box, half = [0, 0, 10, 10], [0, 0, 10, 5]
    there = [truth(box), truth([50, 0, 60, 10], box), truth(box), truth(box), truth()]
    boxes = [
        found(half, box, scores=[0.1, 0.9]),
        found(box, scores=[0.9]),
        found(half, box, scores=[0.9, 0.1]),  # just half, which is not more
        found(scores=[]),
        found(box, scores=[0.9]),  # nothing is there
    ]
    assert localisation_accuracy(boxes, there) == 2 / 4
    assert localisation_accuracy(boxes, there, overlap=0.49) == 3 / 4
    assert mean_best_overlap(boxes, there) == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    crowd = truth(half, [30, 0, 40, 10], ignored=[1])
    on_crowd = found([30, 0, 40, 9], scores=[0.9])
    assert localisation_accuracy([boxes[2], on_crowd], [crowd, crowd]) == 1.0
    assert mean_best_overlap([boxes[2], on_crowd], [crowd, crowd]) == 1.0
    with pytest.raises(InvalidData, match="no image counts"):
        localisation_accuracy([on_crowd], [crowd])


METRICS = [
    precision_recall,
    average_precision,
    mean_average_precision,
    coco_average_precision,
    overlap_recall,
    localisation_accuracy,
    mean_best_overlap,
    lambda boxes, there: bootstrap_interval(average_precision, boxes, there, n=2),
]
GOOD = found([0, 0, 10, 10], scores=[0.5]), truth([0, 0, 10, 10])
WRONG = {
    "lengths": ([GOOD[0]] * 2, [GOOD[1]], "2 images, truths has 1"),
    "none": ([], [], "0 images, truths has 0"),
    "nothing there": ([GOOD[0]], [truth()], "no image has a truth"),
    "all ignored": ([GOOD[0]], [truth([0, 0, 1, 1], ignored=[0])], "no image has a truth"),
    "NaN": ([found([0, 0, np.nan, 9], scores=[1])], [GOOD[1]], r"\[0\].edges contains NaN at row"),
    "infinite": ([GOOD[0]], [truth([0, 0, np.inf, 9])], r"truths\[0\].edges contains inf"),
    "score": ([found([0, 0, 9, 9], scores=[np.nan])], [GOOD[1]], "scores has NaN at row 0"),
    "area": (
        [GOOD[0]] * 2, [GOOD[1], truth([0, 0, 9, 9], [9, 0, 0, 9])],
        r"truths\[1\].edges has the box \[9.0, 0.0, 0.0, 9.0\] at row 1, whose area is negative",
    ),
    "shape": ([GOOD[0]._replace(edges=np.ones((1, 5)))], [GOOD[1]], r"has the shape \(1, 5\)"),
    "scores": ([GOOD[0]._replace(scores=np.ones(2))], [GOOD[1]], "a score for each of the 1 boxes"),
    "classes": ([GOOD[0]], [GOOD[1]._replace(classes=["a", "b"])], "a class for each of the 1"),
    "flags": ([GOOD[0]], [GOOD[1]._replace(ignored=np.array([2]))], "give True or False"),
}  # fmt: skip


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("detections", "truths", "words"), WRONG.values(), ids=WRONG)
def test_wrong_boxes_are_refused(metric, detections, truths, words):
    with pytest.raises(InvalidData, match=words):
        metric(detections, truths)


@pytest.mark.parametrize("metric", METRICS)
def test_other_types_are_refused(metric):
    with pytest.raises(InvalidType, match="is a Detections: give a list with a Detections of"):
        metric(GOOD[0], [GOOD[1]])
    with pytest.raises(InvalidType, match=r"truths\[0\] is a Detections without ignored: give a"):
        metric([GOOD[0]], [GOOD[0]])
    with pytest.raises(InvalidType, match=r"\[0\] is a list without edges, classes, scores"):
        metric([[1, 2]], [GOOD[1]])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda d, t: average_precision(d, t, 0.0), "overlap = 0.0: give a number above 0"),
        (lambda d, t: average_precision(d, t, "much"), "overlap = 'much': give a number"),
        (lambda d, t: average_precision(d, t, points=1), "points = 1: give at least the two ends"),
        (lambda d, t: average_precision(d, t, points=11.5), "points = 11.5: give a whole number"),
        (lambda d, t: localisation_accuracy(d, t, 1.5), "overlap = 1.5: give a number from 0 to 1"),
        (lambda d, t: coco_average_precision(d, t, max_detections=0), "max_detections = 0"),
        (lambda d, t: overlap_recall(d, t, top=0), "top = 0: give a whole number"),
        (lambda d, t: bootstrap_interval(average_precision, d, t, n=0), "n = 0: give a whole"),
        (lambda d, t: bootstrap_interval(average_precision, d, t, level=95), "level = 95: give"),
        (lambda d, t: suppress(d[0].edges, d[0].scores, -1.0), "threshold = -1: give a number"),
        (lambda d, t: suppress(d[0].edges, [1, 2], 0.5), "a score for each of the 1 boxes"),
        (lambda d, t: suppress([[1, 0, 0, 0]], [1], 0.5), "whose area is negative"),
    ],
)
def test_wrong_settings_are_refused(call, words):
    with pytest.raises(InvalidData, match=words):
        call([GOOD[0]], [GOOD[1]])


def test_empty_lists_are_boxes_of_none():
    nothing = Detections([], [], []), Boxes([], [], [])
    assert average_precision([GOOD[0], nothing[0]], [GOOD[1], nothing[1]]) == 1.0
    assert suppress([], [], 0.5).tolist() == []
