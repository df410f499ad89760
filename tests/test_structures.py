"""Oracles equal enumeration, and `check_structure` names every law that a structure breaks."""

import dataclasses

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose

from cases import STRUCTURES, names, tags
from own_structures import CompiledTags, MappedTags, Tags, tagged
from taut import LatentStructure, LatentStructuredSVM, Structure, StructuredSVM, check_structure
from taut.errors import InvalidData, InvalidStructure
from taut.spaces.labels import Gather
from taut.structures import (
    Bags,
    Blocks,
    Chain,
    Multiclass,
    OwnFeatures,
    RowFeatures,
    Scalar,
    SlackRescaled,
    part,
)
from taut.structures.multiclass import project_on_simplex


@pytest.fixture(params=names())
def case(request):
    return STRUCTURES[request.param]


def test_rows_are_stored_as_the_names_say():
    """Half empty ones may be stored in either way, and the other would be left untested."""
    for name, case in STRUCTURES.items():
        blocks = getattr(case.problem().data, "blocks", None)  # of compiled structures
        rows = blocks and getattr(blocks.features, "rows", getattr(blocks.data, "rows", None))
        assert rows is None or (len(rows) == 3) == ("csr" in name), name


def weights(case, rng, n=30):
    """Weights under which losses count much, some and little."""
    d = case.reference[0][0].shape[1]
    return [scale * rng.normal(size=d) for scale in np.geomspace(0.01, 100.0, n)]


@pytest.mark.parametrize("case", STRUCTURES, indirect=True)
def test_hinges_equal_enumeration(case, rng):
    data = case.problem().data
    psi, losses = case.reference
    for w in weights(case, rng):
        expected = [max(0.0, (c - p @ w).max()) for p, c in zip(psi, losses, strict=True)]
        assert_allclose(data.hinges(data.pad(w)), expected, rtol=1e-12, atol=1e-12)


def test_lengths_bound_the_features_of_all_labels(case, rng):
    data = case.problem().data
    if isinstance(case.structure, Structure):
        return  # lengths of plain structures are those of the psi that they return
    lengths = case.structure.lengths(data.blocks)
    if lengths is None:
        lengths = data._measured_lengths(data.pad(weights(case, rng)[10]))
    longest = [np.linalg.norm(psi, axis=1).max() for psi in case.reference[0]]
    assert (np.array(longest) <= 2.0 * lengths * (1.0 + 1e-12)).all()


def test_predictions_equal_enumeration(case, rng):
    data = case.problem().data
    psi, _losses = (case.base or case).reference
    for w in weights(case, rng):
        for i, predicted in enumerate(data.predict(w)):
            margins = dict(zip(map(key, user_labels(case, i)), psi[i] @ w, strict=True))
            # A structure whose truth is no candidate has psi = 0 for it.
            assert margins.get(key(predicted), 0.0) <= min(margins.values()) + 1e-12


def user_labels(case, i):
    """Labels of block i as predictions show them."""
    rows = case.labels(i)
    if isinstance(case.structure, Structure):
        return rows
    return case.structure.decode(rows.ravel(), rows.shape[1] * np.arange(len(rows) + 1))


def key(label):
    return tuple(np.ravel(label).tolist())


def test_threads_change_nothing(case, rng):
    data = case.problem().data
    w = weights(case, rng, 1)[0]
    np.testing.assert_array_equal(data.hinges(data.pad(w), n_jobs=3), data.hinges(data.pad(w)))


def candidates(case):
    return (lambda x: case.labels(0)) if isinstance(case.structure, Structure) else case.labels


def test_structures_keep_the_laws(case):
    check_structure(case.structure, *case.data(), candidates=candidates(case), n_examples=9)
    check_structure(case.structure, *case.data())


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        (Chain(2), r"Chain has no all_labels, which exact_step and slack rescaling need: return"),
        (
            Tags(2),
            r"Tags has no labels\(x\), and slack rescaling needs all labels .*: write it",
        ),
    ],
)
def test_what_cannot_be_enumerated_is_not_rescaled(structure, message):
    with pytest.raises(InvalidStructure, match=message):
        SlackRescaled(structure)


def test_labels_of_another_size_are_not_rescaled():
    structure = type("Spoilt", (Multiclass,), {"all_labels": np.zeros((4, 2), dtype=np.int32)})(4)
    with pytest.raises(InvalidStructure, match=r"Spoilt\.all_labels has shape \(4, 2\), the label"):
        SlackRescaled(structure).encode(*STRUCTURES["multiclass"].data())


# Broken plain structures, one for each law.


class TruthCosts(Tags):
    def loss(self, truth, label):
        return super().loss(truth, label) + 0.5


class NegativeLoss(Tags):
    def loss(self, truth, label):
        return -super().loss(truth, label)


class NanFeatures(Tags):
    def features(self, x, label):
        return super().features(x, label) / (sum(label) != 2)

    def argmax(self, x, w, truth=None):
        return (0,) * len(self.subsets[0])


class LongFeatures(Tags):
    def features(self, x, label):
        return np.append(super().features(x, label), np.zeros(int(sum(label) == 2)))

    def argmax(self, x, w, truth=None):
        return (0,) * len(self.subsets[0])


class MatrixFeatures(Tags):
    def features(self, x, label):
        return np.outer(x, label)


class LossIgnored(Tags):
    def argmax(self, x, w, truth=None):
        return super().argmax(x, w)


class Minimises(Tags):
    def argmax(self, x, w, truth=None):
        return super().argmax(x, -w if truth is None else w, truth)


class TooSure(Tags):
    def bounded_argmax(self, x, w, truth=None):
        return (0,) * len(self.subsets[0]), 1e-3


class NegativeError(Tags):
    def bounded_argmax(self, x, w, truth=None):
        return self.argmax(x, w, truth), -1.0


class ModifiesW(Tags):
    def argmax(self, x, w, truth=None):
        label = super().argmax(x, w, truth)
        w[0] += 1.0
        return label


class ModifiesX(Tags):
    def argmax(self, x, w, truth=None):
        label = super().argmax(x, w, truth)
        x *= 1.0 + 1e-9
        return label


@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value):RuntimeWarning")
@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (TruthCosts, r"TruthCosts\.loss on example 0: the truth \(.*\) costs 0\.5; return 0"),
        (NegativeLoss, r"loss on example 0: label \(.*\) costs -\d; return a finite number >= 0"),
        (NanFeatures, r"features on example \d: feature \d of label \(.*\) is (nan|-?inf); return"),
        (LongFeatures, r"features on example \d: .* \(\d+,\), those of example 0's truth \(9,\)"),
        (MatrixFeatures, r"features on example 0: .* have shape \(2, 3\); return a 1-D array"),
        (
            LossIgnored,
            r"argmax on example \d: with the truth it returns \(.*\), whose score \+ loss is "
            r"\S+, while \(.*\) has \S+; return the label of highest score \+ loss",
        ),
        (
            Minimises,
            r"argmax on example \d: without the truth it returns \(.*\), whose score is \S+, while"
            r" \(.*\) has \S+; return the label of highest score$",
        ),
        (
            TooSure,
            r"bounded_argmax on example \d: .* it returns \(.*\), whose score.* is \S+ and whose "
            r"error is 0\.001, while \(.*\) has \S+; return the label .*, or a larger error",
        ),
        (NegativeError, r"bounded_argmax on example 0: with the truth it returns the error -1\.0;"),
        (ModifiesW, r"argmax on example 0: with the truth it modifies w; work on a copy of w"),
        (ModifiesX, r"on example 0: x or the truth is modified; work on a copy"),
    ],
)
def test_broken_plain_structures_are_named(broken, message):
    case = tags(broken)
    with pytest.raises(InvalidStructure, match=message):
        check_structure(case.structure, *case.data(), candidates=lambda x: case.structure.subsets)


def test_found_candidates_reveal_an_argmax_that_ignores_the_loss():
    case = tags(LossIgnored)
    with pytest.raises(InvalidStructure, match="with the truth it returns"):
        check_structure(case.structure, *case.data())


# Broken compiled structures. The right functions, compiled, are spoilt one at a time.

argmax, loss, parts, pull, push = (
    numba.njit(getattr(MappedTags, name)) for name in ("argmax", "loss", "parts", "pull", "push")
)


def truth_costs(data, i, label):
    return loss(data, i, label) + 1.0


def negative_loss(data, i, label):
    return -loss(data, i, label)


def second_best(data, i, work, loss_weight, label):
    argmax(data, i, work, loss_weight, label)
    label[0] = 1 - label[0]
    return parts(data, i, label, Gather(work)) + loss_weight * loss(data, i, label)


def second_best_without_loss(data, i, work, loss_weight, label):
    value = argmax(data, i, work, loss_weight, label)
    if loss_weight > 0.0:
        return value
    label[0] = 1 - label[0]
    return parts(data, i, label, Gather(work))


def wrong_value(data, i, work, loss_weight, label):
    return argmax(data, i, work, loss_weight, label) + 0.001


def spends_work(data, i, work, loss_weight, label):
    value = argmax(data, i, work, loss_weight, label)
    work[0] = 1e3
    return value


def argmax_modifies_data(data, i, work, loss_weight, label):
    value = argmax(data, i, work, loss_weight, label)
    data[2][i, 0] *= 1.0 + 1e-12
    return value


def long_label(data, i, work, loss_weight, label):
    value = argmax(data, i, work, loss_weight, label)
    label[label.shape[0]] = 0
    return value


def long_work(data, i, work, loss_weight, label):
    work[work.shape[0]] = 0.0
    return argmax(data, i, work, loss_weight, label)


def no_label(data, i, work, loss_weight, label):
    value = argmax(data, i, work, loss_weight, label)
    label[0] = 7
    return value


def forgets_to_add(data, i, label, each):
    total = part(each, 0, label[0])
    part(each, 1, label[1])
    return total + part(each, 2, label[2])


def beyond_the_end(data, i, label, each):
    return parts(data, i, label, each) + part(each, 10**9, label[0])


def before_the_beginning(data, i, label, each):
    return parts(data, i, label, each) + part(each, -1, 1.0)


def by_the_first_tag(data, i, label, each):
    return part(each, 6 if label[0] == 7 else label[0], 1.0)


def ignores_statistics(data, i, statistics, w):
    push(data, i, np.ones(statistics.shape[0]), w)


def first_potential_only(data, i, statistics, w):
    own = np.zeros(statistics.shape[0])
    own[0] = statistics[0]
    push(data, i, own, w)


def largest_potential_only(data, i, statistics, w):
    own = np.zeros(statistics.shape[0])
    own[np.argmax(statistics)] = np.max(statistics)
    push(data, i, own, w)


def replaces_weights(data, i, statistics, w):
    w[:] = 0.0
    push(data, i, statistics, w)


def infinite_features(data, i, statistics, w):
    push(data, i, statistics, w)
    w[1] = np.inf


def outside_w(data, i, statistics, w):
    push(data, i, statistics, w)
    w[w.shape[0] + 1] = 0.0


def spends_statistics(data, i, statistics, w):
    push(data, i, statistics, w)
    statistics[0] += 1.0


def pull_modifies_w(data, i, w, work):
    pull(data, i, w, work)
    w[0] += 1.0


def pull_shrinks_w(data, i, w, work):
    pull(data, i, w, work)
    w *= 0.9


def pull_beyond_potentials(data, i, w, work):
    pull(data, i, w, work)
    work[6] = 0.0


def constant_potential(data, i, w, work):
    pull(data, i, w, work)
    work[1] += 0.01


def positive_potentials(data, i, w, work):
    pull(data, i, w, work)
    work[2] = max(work[2], 0.0)


def another_pull(data, i, w, work):
    pull(data, i, w, work)
    work[0], work[1] = work[1], work[0]


def short_pull(data, i, w, work):
    pull(data, i, w, np.empty(6))
    work[0] = 0.0


def spoilt(base=MappedTags, **functions):
    return type("Spoilt", (base,), {name: staticmethod(f) for name, f in functions.items()})


ROW = r"\[[01], [01], [01]\]"


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"loss": truth_costs}, rf"Spoilt\.loss on example 0: the truth {ROW} costs 1; return 0"),
        ({"loss": negative_loss}, rf"loss on example 0: label {ROW} costs -\d; return a finite"),
        ({"argmax": second_best}, rf"with the truth it returns {ROW}, whose .*, while {ROW} has"),
        ({"argmax": second_best_without_loss}, rf"without the truth it returns {ROW}, .* while"),
        ({"argmax": wrong_value}, rf"with the truth it returns the value \S+ for {ROW}, whose sco"),
        ({"argmax": spends_work}, r"argmax on .*: it makes 1000 of potential 0, which was \S+; ke"),
        ({"argmax": argmax_modifies_data}, r"oracles on example 0: they modify data\[2\]; write"),
        ({"argmax": long_label}, r"argmax on .*: it writes outside its label, which has 3 int"),
        ({"argmax": long_work}, r"it writes outside work, whose length is 6; correct work_size"),
        (
            {"argmax": no_label, "parts": by_the_first_tag},
            r"label \[7, .*\] is made of potential 6, .* or let argmax return labels of the block",
        ),
        ({"parts": forgets_to_add}, rf"parts on .*: for label {ROW} it returns the score \S+, whi"),
        ({"parts": beyond_the_end}, rf"parts on .*: label {ROW} is made of potential 1000000000, "),
        ({"parts": before_the_beginning}, r"of potential -1, and the block has the potentials 0 t"),
        (
            {"push": ignores_statistics},
            r"pull and push on .*: pull writes the potential \d as \S+,",
        ),
        ({"push": first_potential_only}, r"while w times the features that push adds for it is 0;"),
        ({"push": largest_potential_only}, r"adds for several statistics at once has the product"),
        ({"push": replaces_weights}, r"to a weight \d that is 0, and \S+ to one that is 1; add to"),
        ({"push": infinite_features}, rf"feature 1 of label {ROW} is inf; return finite"),
        ({"push": outside_w}, r"it writes outside w, whose length is 9; correct n_features of Own"),
        ({"push": spends_statistics}, r"push on .*: it modifies the statistics; write to w only"),
        ({"pull": pull_modifies_w}, r"pull on example 0: it modifies w; write to work only"),
        ({"pull": pull_shrinks_w}, r"pull on example 0: it modifies w; write to work only"),
        ({"pull": pull_beyond_potentials}, r"writes outside the potentials, of which there are 6;"),
        (
            {"pull": constant_potential},
            r"potential 1 of two weights together is \S+, and \S+ if th",
        ),
        ({"pull": positive_potentials}, r"potential 2 of two weights together is \S+, and \S+ if"),
        (
            {"pull": another_pull},
            r"pull writes the potential [01] as \S+, while w times the featur",
        ),
        ({"pull": short_pull}, rf"label {ROW} is made of potential \d, which pull does not write;"),
    ],
)
def test_broken_compiled_structures_are_named(functions, message):
    case = tags(spoilt(**functions))
    with pytest.raises(InvalidStructure, match=message):
        check_structure(case.structure, *case.data(), candidates=case.labels(0))


class NextToColumns(CompiledTags):
    """Takes the columns for the stride."""

    def encode(self, X, y=None):
        blocks = super().encode(X, y)
        return dataclasses.replace(blocks, data=(blocks.data[0], self.n_tags))


class WrongOverlaps(Chain):
    def encode(self, X, y=None):
        blocks = super().encode(X, y)
        view = blocks.features._view
        blocks.features._view = view._replace(overlaps=2.0 * view.overlaps)
        return blocks


def test_a_part_in_the_padding_is_named():
    case = tags(NextToColumns)
    message = r"label \[.*\] is made of a potential that is padding, one of \[.*\]; count `stride`"
    with pytest.raises(InvalidStructure, match=message):
        check_structure(case.structure, *case.data(), candidates=case.labels)


def test_overlaps_that_are_not_those_of_the_rows_are_named():
    case = STRUCTURES["chain"]
    message = r"WrongOverlaps\.encode on example \d: labels .* by the overlaps of RowFeatures; give"
    with pytest.raises(InvalidStructure, match=message):
        check_structure(WrongOverlaps(3), *case.data(), candidates=case.labels)


@pytest.mark.parametrize("name", ["parts", "loss"])
def test_a_missing_oracle_is_named(name):
    case = tags(type("Mute", (CompiledTags,), {name: None}))
    with pytest.raises(InvalidStructure, match=rf"Mute has no {name}: write it as a static method"):
        check_structure(case.structure, *case.data())


@pytest.mark.parametrize("name", ["pull", "push"])
def test_own_features_without_a_map_are_named(name):
    case = tags(type("Mute", (MappedTags,), {name: None}))
    with pytest.raises(InvalidStructure, match="Mute has OwnFeatures and no pull or no push: writ"):
        check_structure(case.structure, *case.data())


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_of_one_row_may_have_a_tail(columns, dtype, rng):
    X = rng.normal(size=(4, 2)).astype(dtype)
    features = RowFeatures(X, columns=columns, tail=(5, 1))
    w = rng.normal(size=features.n_features)
    assert features.n_features == 2 * columns + 5
    np.testing.assert_array_equal(features.unpad(features.pad(w)), w)
    assert features.lifts
    assert features.n_potentials >= features.stride + 5


def test_a_bias_beside_a_tail_is_refused():
    with pytest.raises(InvalidStructure, match=r"bias = 1 and a tail of shape \(2, 1\), .*: app"):
        RowFeatures(np.eye(2), columns=2, bias=1.0, tail=(2, 1))


# Latent parts


def complete_first(data, i, work, label):
    label[0] = min(label[0], 1)


def complete_other_class(data, i, work, label):
    label[0] = 0


@pytest.mark.parametrize(
    ("complete", "message"),
    [
        (complete_first, r"complete on .*: it returns \[1\], whose score is \S+, while the truth"),
        (complete_other_class, r"it makes \[0\] of the truth \[\d\], which costs 1; change the la"),
    ],
)
def test_broken_completions_are_named(complete, message):
    structure = type("Spoilt", (Bags,), {"complete": staticmethod(complete)})()
    X, offsets = np.arange(12.0).reshape(6, 2) - 5.0, np.array([0, 3, 6])
    check_structure(Bags(), (X, offsets), np.array([2, -1]))
    with pytest.raises(InvalidStructure, match=message):
        check_structure(structure, (X, offsets), np.array([2, -1]))


# Means


spread, mean_of, mean_loss = (
    numba.njit(getattr(Multiclass, name)) for name in ("spread", "mean_of", "mean_loss")
)
expect = numba.njit(Multiclass.expect)


def spread_of_the_first(data, i, mean, statistics):
    spread(data, i, mean, statistics)
    statistics[1] = 0.0


def spread_adds(data, i, mean, statistics):
    for k in range(mean.shape[0]):
        statistics[k] += mean[k]


def spread_squares(data, i, mean, statistics):
    for k in range(mean.shape[0]):
        statistics[k] = mean[k] ** 2


def spread_spends_the_mean(data, i, mean, statistics):
    spread(data, i, mean, statistics)
    mean[0] += 1.0


def spread_too_far(data, i, mean, statistics):
    spread(data, i, mean, statistics)
    statistics[statistics.shape[0]] = 0.0


def mean_too_far(data, i, label, mean):
    mean_of(data, i, label, mean)
    mean[mean.shape[0]] = 0.0


def another_mean_loss(data, i, mean):
    return mean_loss(data, i, mean) + 0.1


def expect_spends_work(data, i, work, temperature, loss_weight, base, mean):
    value = expect(data, i, work, temperature, loss_weight, base, mean)
    work[0] += 1.0
    return value


def expect_colder(data, i, work, temperature, loss_weight, base, mean):
    return expect(data, i, work, 0.5 * temperature, loss_weight, base, mean)


def another_sum(data, i, work, temperature, loss_weight, base, mean):
    return expect(data, i, work, temperature, loss_weight, base, mean) + 0.1


def flattens(data, i, mean):
    mean[:4] = 0.25


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"spread": spread_of_the_first}, r"it writes 0 for potential 1, while their parts add up"),
        ({"spread": spread_adds}, r"spread on .* write zeros as well"),
        ({"spread": spread_squares}, r"spread on .*: for the combined means of 4 labels it writes"),
        ({"spread": spread_spends_the_mean}, r"spread or mean_loss on .*: the mean is modified"),
        ({"spread": spread_too_far}, r"writes outside the statistics, which has? .*n_potentials"),
        ({"mean_of": mean_too_far}, r"writes outside a mean, which has 4 numbers; correct mean_of"),
        ({"mean_loss": another_mean_loss}, r"mean_loss on .*: .* it is \S+, while their losses ad"),
        ({"expect": expect_spends_work}, r"expect on .*: it makes \S+ of potential 0, which was"),
        ({"expect": expect_colder}, r"at temperature \S+ it differs from enumeration by"),
        ({"expect": another_sum}, r"at temperature \S+ it returns \S+, while the sum is"),
        ({"normalise": flattens}, r"normalise on .*: it changes a mean; leave means as they are"),
    ],
)
def test_broken_means_are_named(functions, message):
    case = STRUCTURES["multiclass"]
    with pytest.raises(InvalidStructure, match=message):
        check_structure(spoilt(Multiclass, **functions)(4), *case.data(), candidates=case.labels)


@pytest.mark.parametrize("name", ["normalise", "mean_of", "mean_loss", "spread"])
def test_a_missing_function_of_means_is_named(name):
    structure = type("Mute", (Multiclass,), {name: None})(4)
    with pytest.raises(InvalidStructure, match=rf"Mute\.expect on example 0: {name} is missing"):
        check_structure(structure, *STRUCTURES["multiclass"].data())


def test_candidates_of_the_wrong_size_are_refused():
    case = tags()
    with pytest.raises(InvalidData, match=r"example 0 have shape \(4, 2\), its truth has 3 int"):
        check_structure(case.structure, *case.data(), candidates=np.zeros((4, 2)))


def test_candidates_of_a_plain_structure_are_a_function():
    case = tags(Tags)
    with pytest.raises(InvalidData, match=r"candidates is of type list: for a plain structure"):
        check_structure(case.structure, *case.data(), candidates=case.structure.subsets)


exact_step = numba.njit(Multiclass.exact_step)


def wrong_gap(data, i, work, square, weight, stiffness, alpha, statistics):
    gap, loss_change, length = exact_step(
        data, i, work, square, weight, stiffness, alpha, statistics
    )
    return gap + 0.01, loss_change, length


def wrong_loss_change(data, i, work, square, weight, stiffness, alpha, statistics):
    gap, loss_change, length = exact_step(
        data, i, work, square, weight, stiffness, alpha, statistics
    )
    return gap, loss_change + 0.01, length


def wrong_length(data, i, work, square, weight, stiffness, alpha, statistics):
    gap, loss_change, length = exact_step(
        data, i, work, square, weight, stiffness, alpha, statistics
    )
    return gap, loss_change, 1.01 * length


def wrong_statistics(data, i, work, square, weight, stiffness, alpha, statistics):
    answer = exact_step(data, i, work, square, weight, stiffness, alpha, statistics)
    statistics[0] += 0.01
    return answer


def infeasible(data, i, work, square, weight, stiffness, alpha, statistics):
    return exact_step(data, i, work, square, 1.01 * weight, stiffness, alpha, statistics)


def wasteful(data, i, work, square, weight, stiffness, alpha, statistics):
    return exact_step(data, i, work, square, 0.99 * weight, stiffness, alpha, statistics)


def too_stiff(data, i, work, square, weight, stiffness, alpha, statistics):
    return exact_step(data, i, work, square, weight, 0.5 * stiffness, alpha, statistics)


def adds_to_statistics(data, i, work, square, weight, stiffness, alpha, statistics):
    old = statistics[0]
    answer = exact_step(data, i, work, square, weight, stiffness, alpha, statistics)
    statistics[0] += old
    return answer


def statistics_too_far(data, i, work, square, weight, stiffness, alpha, statistics):
    statistics[statistics.shape[0]] = 0.0
    return exact_step(data, i, work, square, weight, stiffness, alpha, statistics)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"exact_step": staticmethod(wrong_gap)}, r"reports the gap as \S+, which is"),
        ({"exact_step": staticmethod(wrong_loss_change)}, r"reports the change of the summed loss"),
        ({"exact_step": staticmethod(wrong_length)}, r"reports the squared length of the move as"),
        (
            {"exact_step": staticmethod(wrong_statistics)},
            r"reports the statistics of potential 0 as",
        ),
        (
            {"exact_step": staticmethod(adds_to_statistics)},
            r"reports the statistics of potential \d as \S+, which is .* whatever is there",
        ),
        (
            {"exact_step": staticmethod(statistics_too_far)},
            r"it writes outside alpha, .* or outside the statistics, which have 4; make",
        ),
        ({"exact_step": staticmethod(infeasible)}, r"the sum \S+, the block's weight is"),
        ({"exact_step": staticmethod(wasteful)}, r"alpha sums to \S+, the block's weight is"),
        ({"exact_step": staticmethod(too_stiff)}, r"moving \S+ of alpha from label \[\d\] to \[\d"),
        ({"all_labels": np.arange(4)[:, None]}, r"all_labels on example 0: dtype int64 and shape"),
        ({"all_labels": np.arange(4, dtype=np.int32)}, r"all_labels .* shape \(4,\), while"),
        (
            {"all_labels": np.arange(3, dtype=np.int32)[:, None]},
            r"exact_step on example 0: it writes outside alpha, which has 3 entries, or",
        ),
    ],
)
def test_broken_exact_steps_are_named(attributes, message):
    case = STRUCTURES["multiclass"]
    structure = type("Spoilt", (Multiclass,), attributes)(4)
    with pytest.raises(InvalidStructure, match=message):
        check_structure(structure, *case.data(), n_examples=9)


def test_a_truth_that_is_none_of_all_labels_is_named():
    structure = type("Spoilt", (Multiclass,), {"all_labels": np.array([[1]], dtype=np.int32)})(2)
    with pytest.raises(InvalidStructure, match=r"the truth \[0\] is not among them and has feat"):
        check_structure(structure, np.eye(2), np.array([0, 1]))


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8, 1e16])
def test_projection_on_the_simplex(scale, rng):
    for _ in range(100):
        point, total = scale * rng.normal(size=5).round(1), 10.0 ** rng.integers(-3, 3)
        out = point.copy()
        project_on_simplex(out, total)
        assert out.min() >= 0.0
        assert_allclose(out.sum(), total, rtol=1e-14)
        # Optimality: what is kept lies above a common threshold by its value, the rest below it.
        threshold = (point - out)[out > 0.0].max()
        assert (point <= threshold + out + 1e-14 * (scale + total)).all()


@pytest.mark.parametrize(
    ("structure", "X", "y", "message"),
    [
        (Multiclass(2), np.eye(3), [0, 2, 1], r"y\[1\] = 2 is no label of 0\.\.1: number"),
        (Multiclass(2), np.eye(3), [0, 1, -1], r"y\[2\] = -1 is no label"),
        (Chain(2), (np.eye(3), [0, 1, 3]), [0, 1, 2], r"y\[2\] = 2 is no label of 0\.\.1"),
    ],
)
def test_labels_out_of_range_are_refused(structure, X, y, message):
    with pytest.raises(InvalidData, match=message):
        structure.encode(X, y)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (np.zeros((2, 3)), r"cost has shape \(2, 3\), the 2 classes need \(2, 2\)"),
        ([[0, -1], [1, 0]], r"cost\[0, 1\] = -1\.0: costs are finite and not negative"),
        ([[0, np.nan], [1, 0]], r"cost\[0, 1\] = nan"),
        ([[0, 1], [1, 2]], r"cost\[1, 1\] = 2\.0: the truth must cost 0"),
    ],
)
def test_what_is_no_cost_matrix_is_refused(cost, message):
    with pytest.raises(InvalidData, match=message):
        Multiclass(2, cost)


def test_data_that_may_not_be_written_is_read():
    X = np.eye(2)
    X.flags.writeable = False
    check_structure(Scalar(), X, np.array([1.0, -1.0]))


@pytest.mark.parametrize(
    ("structure", "X", "y", "message"),
    [
        (Scalar(), np.ones((3, 2)), [1.0, -1.0], r"y has shape \(2,\), X has 3 rows: give -1"),
        (Scalar(), np.ones((2, 2)), [1.0, 0.5], r"give -1 or \+1"),
        (Multiclass(2), np.ones((3, 2)), [0, 1], r"y has shape \(2,\) .* X has 3 rows"),
        (Multiclass(2), np.ones((2, 2)), [0.0, 1.0], r"dtype float64, .* one integer to each"),
        (Multiclass(2), np.array([[1.0], [np.nan]]), [0, 1], r"X contains NaN at row 1"),
        (Chain(2), (np.ones((3, 2)), [0, 2]), [0, 1, 0], r"offsets run from 0 to 2, X has 3 rows"),
        (Chain(2), (np.ones((3, 2)), [0, 0, 3]), [0, 1, 0], r"offsets .* must begin with 0, rise"),
        (Chain(2), (np.ones((3, 2)), [0, 3]), [0, 1], r"y has shape \(2,\) .* X has 3 rows"),
    ],
)
def test_data_that_does_not_fit_together_is_refused(structure, X, y, message):
    with pytest.raises(InvalidData, match=message):
        structure.encode(X, y)


def test_examples_are_taken_from_all_over_the_data():
    class Misses(Tags):
        """No example of the first half shows it."""

        def argmax(self, x, w, truth=None):
            best = super().argmax(x, w, truth)
            return truth if truth is not None and x[0] > 50.0 else best

    X, y = tagged(20, 3, 2, np.random.default_rng(0))
    X[10:] += 100.0
    with pytest.raises(InvalidStructure, match=r"Misses\.argmax on example 1\d"):
        check_structure(Misses(3), X, y, candidates=lambda x: Tags(3).subsets)


@pytest.mark.parametrize("truth", [np.zeros((2, 1), np.int32), np.zeros(2), np.zeros(3, np.int32)])
def test_blocks_whose_truths_do_not_fit_their_offsets_are_refused(truth):
    with pytest.raises(InvalidStructure, match="offsets end with 2: give the integers of all"):
        Blocks((), OwnFeatures(1, 1), np.arange(3), truth)


# Signatures


class NoTruth(Tags):
    def argmax(self, x, w):
        return super().argmax(x, w)


class NeedsTruth(Tags):
    def argmax(self, x, w, truth):
        return super().argmax(x, w, truth)


class NoTruthInLoss(Tags):
    def loss(self, label):
        return 0.0


class NoLabel(Tags):
    def features(self, x):
        return x


class BoundedNoTruth(Tags):
    def bounded_argmax(self, x, w):
        return super().argmax(x, w), 0.0


class LabelsOfNothing(Tags):
    def labels(self):
        return self.subsets


SIGNATURES = {
    NoTruth: r"argmax takes \(x, w\), and cannot be called as argmax\(x, w, truth\) .*: write "
    r"argmax\(self, x, w, truth=None\)",
    NeedsTruth: r"argmax takes \(x, w, truth\), and cannot be called as argmax\(x, w\) .*: write "
    r"argmax\(self, x, w, truth=None\)",
    NoTruthInLoss: r"loss takes \(label\), .* loss\(truth, label\) .*: write loss\(self, truth",
    NoLabel: r"features takes \(x\), .*: write features\(self, x, label\)",
    BoundedNoTruth: r"bounded_argmax takes \(x, w\), .*: write bounded_argmax\(self, x, w, truth",
    LabelsOfNothing: r"labels takes \(\), .*: write labels\(self, x\)",
}


@pytest.mark.parametrize(
    ("kind", "words"), SIGNATURES.items(), ids=lambda v: getattr(v, "__name__", "")
)
def test_wrong_signatures_are_named(kind, words):
    X, y = tagged(10, 3, 4, np.random.default_rng(0))
    message = rf"^{kind.__name__}\.{words}"
    with pytest.raises(InvalidStructure, match=message):
        check_structure(kind(3), X, y)
    with pytest.raises(InvalidStructure, match=message):
        StructuredSVM(kind(3), check=False).fit(X, y)


def test_wrong_signature_within_a_wrapper():
    X, y = tagged(10, 3, 4, np.random.default_rng(0))

    class Listed(NoTruthInLoss):
        def labels(self, x):
            return self.subsets

    with pytest.raises(InvalidStructure, match=r"^Listed\.loss takes \(label\)"):
        StructuredSVM(SlackRescaled(Listed(3))).fit(X, y)


def test_wrong_signature_of_complete():
    X, y = tagged(10, 3, 4, np.random.default_rng(0))

    class NoWeights(Tags, LatentStructure):
        def complete(self, x, truth):
            return truth

    with pytest.raises(InvalidStructure, match=r"write complete\(self, x, truth, w=None\)"):
        LatentStructuredSVM(NoWeights(3)).fit(X, y)


def test_arguments_may_have_other_names_and_defaults():
    X, y = tagged(10, 3, 4, np.random.default_rng(0))

    class Named(Tags):
        def argmax(self, image, weights, /, *truth, **others):
            return super().argmax(image, weights, *truth)

    check_structure(Named(3), X, y)


def test_truth_may_be_needed_where_nothing_is_predicted_by_score():
    X, y = tagged(10, 3, 4, np.random.default_rng(0))

    class Unscored(NeedsTruth):
        scores_predict = False

    check_structure(Unscored(3), X, y, candidates=lambda x: Tags(3).subsets)


# Losses that depend on the example


class Priced(Structure):
    """One of three numbers; a mistake costs what the example says."""

    def features(self, x, label):
        return np.outer(x[:2], np.arange(3) == label).ravel()

    def loss(self, truth, label, x):
        return x[2] * (truth != label)

    def labels(self, x):
        return range(3)

    def argmax(self, x, w, truth=None):
        def value(label):
            cost = 0.0 if truth is None else self.loss(truth, label, x)
            return w @ self.features(x, label) + cost

        return max(range(3), key=value)


class PricedTruth(Priced):
    """The same where the truth says what a mistake costs; labels are pairs."""

    def features(self, x, label):
        return super().features(x, label[0])

    def loss(self, truth, label):
        return truth[1] * (truth[0] != label[0])

    def labels(self, x):
        return [(label, 0.0) for label in range(3)]

    def argmax(self, x, w, truth=None):
        def value(label):
            cost = 0.0 if truth is None else self.loss(truth, label)
            return w @ self.features(x, label) + cost

        return max(self.labels(x), key=value)


@pytest.mark.parametrize("wrap", [lambda structure: structure, SlackRescaled])
def test_a_loss_may_ask_for_the_example(wrap, rng):
    X = np.column_stack([rng.normal(size=(8, 2)), rng.uniform(0.5, 3.0, size=8)])
    y = rng.integers(3, size=8).tolist()
    check_structure(wrap(Priced()), X, y)
    options = {"C": 0.5, "tol": 1e-8, "random_state": 0}
    asks = StructuredSVM(wrap(Priced()), **options).fit(X, y).certificate_
    knows = StructuredSVM(wrap(PricedTruth()), **options)
    pairs = list(zip(y, X[:, 2].tolist(), strict=True))
    assert asks.status.name == "CONVERGED"
    assert_allclose(asks.primal, knows.fit(X, pairs).certificate_.primal, rtol=1e-7)


# Data that a user's `encode` lays out by itself


class Laid(CompiledTags):
    """Tags whose truths and rows are laid out as the user has them."""

    def encode(self, X, y=None):
        n, m = len(X), self.n_tags
        truth = np.zeros((n, m), dtype=int) if y is None else np.array(y)
        features = RowFeatures(X, columns=m, tail=(m * (m - 1) // 2, 1))
        data = (truth.astype(np.int32), features.stride)
        return Blocks(data, features, m * np.arange(n + 1), truth.ravel())


def test_truths_and_rows_of_other_types_are_converted():
    X, y = tagged(20, 3, 4, np.random.default_rng(0))
    whole = np.round(X).astype(int)
    model = StructuredSVM(Laid(3), C=0.1, tol=1e-4, random_state=0).fit(whole.tolist(), y)
    other = StructuredSVM(CompiledTags(3), C=0.1, tol=1e-4, random_state=0)
    assert_allclose(
        model.certificate_.primal, other.fit(whole.astype(float), y).certificate_.primal, rtol=2e-4
    )


def test_rows_that_are_not_finite_are_named():
    X, y = tagged(20, 3, 4, np.random.default_rng(0))
    X[4, 1] = np.nan
    for fit in (lambda: check_structure(Laid(3), X, y), lambda: StructuredSVM(Laid(3)).fit(X, y)):
        with pytest.raises(InvalidData, match=r"NaN|not finite|infinity"):
            fit()


def test_a_tail_is_a_pair():
    with pytest.raises(InvalidStructure, match=r"tail = 2: give a pair, its rows and its columns"):
        RowFeatures(np.ones((2, 2)), columns=2, tail=2)
