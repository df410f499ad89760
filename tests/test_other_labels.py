"""Labels that an argmax never returns: refused where they surely are labels, told otherwise."""

import warnings
from dataclasses import replace

import numba
import numpy as np
import pytest

import taut
from misuses.compiled import CompiledTable
from misuses.judge import Labels, Objective, judged
from own_structures import CompiledTags, ListedTags, Tags, tagged
from taut import BinarySVM, CompiledStructure, MulticlassSVM, Problem, Structure, StructuredSVM
from taut.binding.audits import Auditor
from taut.data import Stream
from taut.errors import InvalidData, InvalidStructure, NotConverged, UncertainLabels
from taut.result import OVER_RETURNED, THE_OBJECTIVE
from taut.solvers import (
    DualCoordinate,
    FrankWolfe,
    HardNegatives,
    MultiSample,
    NSlack,
    OneSlack,
    Subgradient,
)
from taut.storage.checksum import checksum
from taut.structures import Blocks, RowFeatures, part

SOLVERS = [DualCoordinate(), FrankWolfe(), MultiSample(), NSlack(), OneSlack(), Subgradient()]


@pytest.fixture(scope="module")
def data():
    return tagged(12, 3, 2, np.random.default_rng(0))


def missing(kind, label):
    """A kind of tags whose argmax never returns a label."""

    class Misses(kind):
        def argmax(self, x, w, truth=None):
            whole = self.subsets
            self.subsets = [subset for subset in whole if subset != label]
            try:
                return super().argmax(x, w, truth)
            finally:
                self.subsets = whole

    return Misses(3)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_certificate_tells_of_truths_that_argmax_never_returns(solver, data):
    X, y = data
    structure = missing(Tags, y[1])
    model = StructuredSVM(structure, C=0.01, solver=solver, random_state=0, check=False)
    with pytest.warns(UncertainLabels, match=r"Misses\.argmax never returns"):
        model.fit(X, y)
    assert model.certificate_.of == THE_OBJECTIVE + OVER_RETURNED
    assert f"Misses.argmax never returns {y[1]} for example" in model.certificate_.message
    assert OVER_RETURNED in repr(model.certificate_)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_listed_label_that_argmax_never_returns_is_refused(solver, data):
    X, y = data
    structure = missing(ListedTags, y[1])
    model = StructuredSVM(structure, C=0.01, solver=solver, random_state=0, check=False)
    with pytest.raises(InvalidStructure, match=r"Misses\.argmax of example"):
        model.fit(X, y)


def test_truth_that_beats_the_argmax_is_found_on_every_block():
    X, y = tagged(200, 3, 4, np.random.default_rng(1))

    class MissesOne(Tags):
        """The truth of the last example alone."""

        def argmax(self, x, w, truth=None):
            if x[0] != X[-1, 0]:
                return super().argmax(x, w, truth)
            others = [subset for subset in self.subsets if subset != y[-1]]
            return max(others, key=lambda label: w @ self.features(x, label))

    problem = Problem(MissesOne(3), X, y)
    w = np.zeros(problem.n_features)
    w[: 3 * X.shape[1]] = 100.0 * np.outer(X[-1], 2 * np.array(y[-1]) - 1).ravel()
    with pytest.raises(InvalidStructure, match=r"MissesOne\.argmax of example 199"):
        problem.primal(w)


def test_streams_are_audited_too(data):
    X, y = data
    model = StructuredSVM(missing(Tags, y[1]), C=0.01, random_state=0, check=False)
    with pytest.warns(UncertainLabels):
        model.fit(Stream([(list(X), y)], kind="examples"))
    assert model.certificate_.of.endswith(OVER_RETURNED)


def test_paths_repeat_the_doubt(data):
    X, y = data
    doubt = f"Misses.argmax never returns {y[1]} for example"
    model = StructuredSVM(missing(Tags, y[1]), random_state=0, check=False)
    with pytest.warns(UncertainLabels, match=r"within .* Misses\.argmax never returns") as caught:
        walked = taut.path(model, X, y, 0.005, 0.02, gap=0.1)
    assert len(caught) == 1
    certificate = walked.at(0.01).certificate_
    assert certificate.of == THE_OBJECTIVE + OVER_RETURNED
    assert doubt in certificate.doubt
    for message in (walked.message, certificate.message):
        assert f"{OVER_RETURNED}. {certificate.doubt}" in message


def test_latent_fits_repeat_the_doubt(data):
    X, y = data

    class Latent(type(missing(Tags, y[1])), taut.LatentStructure):
        def complete(self, x, truth, w=None):
            return truth

    model = taut.LatentStructuredSVM(Latent(3), C=0.01, random_state=0, check=False)
    with pytest.warns(UncertainLabels, match=r"latent one\. Latent\.argmax never returns"):
        model.fit(X, y)
    certificate = model.certificate_
    assert f"Latent.argmax never returns {y[1]} for example" in certificate.doubt
    assert certificate.message.endswith(certificate.doubt)


class Rows(Structure):
    """An example is a vector and the labels that it may have."""

    def features(self, x, label):
        return np.kron(np.eye(4)[label], x[0])

    def loss(self, truth, label):
        return float(truth != label)

    def argmax(self, x, w, truth=None):
        def value(label):
            return w @ self.features(x, label) + (0.0 if truth is None else truth != label)

        return max(x[1], key=value)


class StrictRows(Rows):
    """Complains of labels that an example does not have."""

    complaints = 0

    def features(self, x, label):
        if label not in x[1]:
            type(self).complaints += 1
            warnings.warn("no such label", RuntimeWarning, stacklevel=1)
            raise LookupError(label)
        return super().features(x, label)


def rows_of_their_own():
    rng = np.random.default_rng(0)
    X = [(rng.normal(size=2), tuple(rng.permutation(4)[:2].tolist())) for _ in range(12)]
    return X, [x[1][0] for x in X]


@pytest.mark.filterwarnings("ignore::taut.errors.UncertainLabels")
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_labels_of_an_example_alone_are_never_refused(C):
    X, y = rows_of_their_own()
    loose, strict = (
        StructuredSVM(structure, C=C, random_state=0, tol=1e-5).fit(X, y).certificate_
        for structure in (Rows(), StrictRows())
    )
    assert loose.of.startswith(THE_OBJECTIVE)
    assert strict.of == THE_OBJECTIVE
    assert StrictRows.complaints > 0
    assert abs(loose.primal - strict.primal) <= 1e-4 * strict.primal


def test_label_that_argmax_returns_elsewhere_is_one():
    rng = np.random.default_rng(3)
    X, y = tagged(10, 3, 2, rng)

    class LosesSight(Tags):
        """Ignores most labels as long as the weights are small."""

        def argmax(self, x, w, truth=None):
            if truth is None or np.abs(w).max() > 50.0:
                return super().argmax(x, w, truth)
            return max(truth, self.subsets[0], key=lambda label: w @ self.features(x, label))

    model = StructuredSVM(LosesSight(3), C=0.01, random_state=0, check=False)
    with pytest.raises(InvalidStructure, match=r"LosesSight\.argmax"):
        model.fit(X, y)


class ListedTable(CompiledTable):
    @property
    def all_labels(self):
        return np.arange(len(self.cost), dtype=np.int32)[:, None]


class PositionTable(CompiledTable):
    def encode(self, X, y=None):
        K = len(self.cost)
        return replace(super().encode(X, y), n_labels=K, label_stride=K)


def compiled_case():
    X, y = np.random.default_rng(0).normal(size=(9, 3)), np.arange(9) % 3
    cost = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 2.0], [1.0, 2.0, 0.0]])

    def new(kind, fault):
        return StructuredSVM(kind(cost, fault, 9), C=0.01, random_state=0, check=False)

    return X, y, new


def test_compiled_certificate_tells_of_truths_that_argmax_never_returns():
    X, y, new = compiled_case()
    with pytest.warns(UncertainLabels):
        certificate = new(CompiledTable, "misses").fit(X, y).certificate_
    assert certificate.of == THE_OBJECTIVE + OVER_RETURNED
    assert "CompiledTable.argmax never returns [2] for example" in certificate.message
    assert new(CompiledTable, "none").fit(X, y).certificate_.of == THE_OBJECTIVE


@pytest.mark.parametrize("kind", [ListedTable, PositionTable])
def test_compiled_label_that_is_listed_and_never_returned_is_refused(kind):
    X, y, new = compiled_case()
    with pytest.raises(InvalidStructure, match=rf"{kind.__name__}\.argmax of block"):
        new(kind, "misses").fit(X, y)
    assert new(kind, "none").fit(X, y).certificate_.of == THE_OBJECTIVE


class Choice(CompiledStructure):
    """A label is the number of a row of its own block: those of other blocks lie outside."""

    def encode(self, X, y=None):
        rows, offsets = X
        n = len(offsets) - 1
        truth = np.zeros(n, np.int32) if y is None else np.asarray(y, np.int32)
        features = RowFeatures(rows, places=np.column_stack([offsets[:-1], offsets[1:]]))
        return Blocks((offsets, truth), features, np.arange(n + 1), truth)

    def decode(self, labels, offsets):
        return labels.tolist()

    @staticmethod
    def parts(data, i, label, each):
        return part(each, label[0], 1.0)

    @staticmethod
    def loss(data, i, label):
        return 1.0 * (label[0] != data[1][i])

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        best, winner = -np.inf, 0
        for k in range(data[0][i + 1] - data[0][i]):
            value = work[k] + loss_weight * (k != data[1][i])
            if value > best:
                best, winner = value, k
        label[0] = winner
        return best


class Candidates(Structure):
    """A label is a row of its own example, as a tuple; examples list theirs."""

    def labels(self, x):
        return [tuple(row) for row in x]

    def features(self, x, label):
        return np.array(label)

    def loss(self, truth, label):
        return float(truth != label)

    def argmax(self, x, w, truth=None):
        def value(label):
            return w @ self.features(x, label) + (0.0 if truth is None else truth != label)

        return max(self.labels(x), key=value)


class OneArray(Candidates):
    """The same with labels that are one array in all calls."""

    room = np.zeros(3)

    def loss(self, truth, label):
        return float(tuple(truth) != tuple(label))

    def argmax(self, x, w, truth=None):
        self.room[:] = super().argmax(x, w, None if truth is None else tuple(truth))
        return self.room


@pytest.mark.parametrize("kind", [Candidates, OneArray])
def test_labels_that_examples_do_not_list_are_none_of_theirs(kind):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 3)) * (1.0 + 9.0 * (i % 3 == 0)) for i in range(12)]
    y = [tuple(x[0]) for x in X]
    certificate = StructuredSVM(kind(), C=0.1, random_state=0).fit(X, y).certificate_
    assert certificate.status is taut.Status.CONVERGED
    assert certificate.of == THE_OBJECTIVE


@numba.njit
def _looked_up(each, place):
    return part(each, place, 1.0)


class Calls(Choice):
    """Bounds checks do not reach the function that is called."""

    @staticmethod
    def parts(data, i, label, each):
        return _looked_up(each, label[0])


def test_labels_of_others_are_not_given_to_oracles_that_call_functions(rng):
    X = rng.normal(size=(4, 2)), np.array([0, 2, 4])
    for kind, alone in ((Choice, True), (Calls, False)):
        problem = Problem(kind(), X, [0, 1])
        auditor = Auditor(problem.data, np.random.default_rng(0))
        _certain, rivals = auditor._rivals(0, np.zeros(1, np.int32), np.ones((1, 1), np.int32))
        assert len(rivals) == alone


def test_compiled_labels_beyond_a_block_do_no_harm():
    rows = np.random.default_rng(0).normal(size=(1002, 3))
    offsets = np.array([0, 1000, 1002])  # the truth of the first lies far behind the second
    problem = Problem(Choice(), (rows, offsets), [999, 0], C=1.0)
    result = taut.solve(problem, tol=1e-4, random_state=0)
    assert result.certificate.status is taut.Status.CONVERGED
    values = Auditor(problem.data, None)._values(
        1, problem.data.pad(result.w), np.array([[0], [999]], np.int32)
    )
    assert np.isfinite(values).tolist() == [True, False]


# What a certificate may leave out


def known_labels_case():
    """One block whose third label nobody returns, and a certificate without it."""
    psi = [np.array([[0.0], [1.0], [-1.0]]), np.array([[0.0], [1.0], [-1.0]])]
    losses = [np.array([0.0, 1.0, 3.0])] * 2
    objective = Objective(psi, losses, np.ones(2))
    whole = Labels([{0, 1}] * 2, {0, 1, 2}).over_returned(objective)
    w = np.zeros(1)
    certificate = taut.Certificate(
        whole.value(w)[0], 0.0, 0.0, True, taut.Status.MAX_ITER, "", 1, 1, 0.0, None
    )
    model = type("Model", (), {"certificate_": certificate, "history_": []})
    return model, w, objective


@pytest.mark.parametrize(
    ("known", "of", "kind"),
    [
        ({0, 1}, THE_OBJECTIVE, "unknown label"),
        ({0, 1, 2}, THE_OBJECTIVE, "FALSE"),
        ({0, 1, 2}, THE_OBJECTIVE + OVER_RETURNED, "over returned"),
    ],
)
def test_judge_leaves_out_labels_only_where_nobody_knows_them(known, of, kind):
    model, w, objective = known_labels_case()
    model.certificate_ = replace(model.certificate_, of=of)
    labels = Labels([{0, 1}] * 2, known)
    assert judged(model, w, [objective], 1e-3, "", labels).kind == kind
    assert judged(model, w, [objective], 1e-3, "").kind == "FALSE"
    seen = Labels([{0, 1, 2}, {0, 1}], known | {2})
    assert judged(model, w, [objective], 1e-3, "", seen).kind == "FALSE"


# Data that change


def meddler(X):
    def callback(record):
        X[0] *= 1.0 + 1e-12

    return callback


@pytest.mark.parametrize("kind", [BinarySVM, MulticlassSVM])
def test_data_that_a_callback_changes_are_refused(kind):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(10, 3)), np.arange(10) % 2
    with pytest.raises(InvalidData, match="changed while the fit ran"):
        kind(callbacks=[meddler(X)]).fit(X, y)
    assert kind(callbacks=[lambda record: None]).fit(X, y).certificate_.exact


@pytest.mark.parametrize("structure", [Tags(3), CompiledTags(3)])
def test_examples_of_own_structures_that_a_callback_changes_are_refused(structure, data):
    X, y = data[0].copy(), data[1]
    with pytest.raises(InvalidData, match="changed while the fit ran"):
        StructuredSVM(structure, callbacks=[meddler(X)], random_state=0).fit(X, y)
    assert StructuredSVM(structure, callbacks=[lambda record: None]).fit(X, y).certificate_.exact


def test_checkpoint_of_data_that_changed_is_removed(data, tmp_path):
    X, y, path = data[0].copy(), data[1], tmp_path / "run.taut"
    checkpoint = taut.Checkpoint(path, seconds=0.0)
    with pytest.raises(InvalidData, match="changed while the fit ran"):
        StructuredSVM(CompiledTags(3), callbacks=[meddler(X)], checkpoint=checkpoint).fit(X, y)
    assert not path.exists()


def test_fits_without_callbacks_read_nothing_twice(data, monkeypatch):
    monkeypatch.setattr(Problem, "checksum", None)
    StructuredSVM(Tags(3), random_state=0, verbose=0).fit(*data)
    taut.LatentSVM(max_rounds=2, round_tol=1.0).fit([np.eye(2), -np.eye(2)], [0, 1])


def test_checksums_tell_words_their_order_and_the_last_bytes_apart():
    a = np.arange(21, dtype=np.int32)
    seen = {checksum([a])}
    for changed in (a[::-1], a + 1, np.append(a[:-1], 99), a[:-1], np.append(a[1::-1], a[2:])):
        seen.add(checksum([changed]))
    assert len(seen) == 6
    assert checksum([a.reshape(3, 7)]) == checksum([a])


def test_checksums_see_signs_and_powers_of_two():
    X, y = np.random.default_rng(0).normal(size=(8192, 10)), np.repeat([1.0, -1.0], 50)
    changed = [np.where(np.arange(10) == 3, 2.0 * X, X), -X]
    changed += [np.where(np.arange(10) == 1, -X, X), np.where(np.arange(8192)[:, None] == 9, -X, X)]
    assert len({checksum([given]) for given in (X, *changed)}) == 5
    assert checksum([-y]) != checksum([y])


def test_label_that_argmax_returned_before_is_one(data):
    X, y = data

    class SecondBest(Tags):
        """On some examples; under the weights that favour a label, too."""

        def argmax(self, x, w, truth=None):
            values = [w @ self.features(x, label) for label in self.subsets]
            if truth is not None:
                values = [v + self.loss(truth, k) for v, k in zip(values, self.subsets)]
            return self.subsets[int(np.argsort(values)[-2 if x[0] > 0.5 else -1])]

    for solver in (HardNegatives(), OneSlack(), Subgradient()):
        model = StructuredSVM(SecondBest(3), C=10.0, solver=solver, random_state=0, check=False)
        with pytest.raises(InvalidStructure, match="SecondBest"):
            model.fit(X, y)


class Coarse(ListedTags):
    """Whose scores have few digits, as those of an oracle in single precision."""

    def argmax(self, x, w, truth=None):
        def value(label):
            loss = 0.0 if truth is None else self.loss(truth, label)
            return round((w @ self.features(x, label) + loss) / 5e-7) * 5e-7

        return max(reversed(self.subsets), key=value)


def test_what_an_argmax_falls_short_by_is_rounding(data):
    X, y = data
    short = StructuredSVM(Coarse(3), C=1.0, tol=1e-8, max_iter=300, random_state=0)
    with pytest.warns(NotConverged):
        certificate = short.fit(X, y).certificate_
    assert certificate.rounding > 1e-9
    exact = Problem(ListedTags(3), X, y, C=1.0)
    assert exact.primal(short.coef_) <= certificate.primal + certificate.rounding
    assert StructuredSVM(ListedTags(3), C=1.0).fit(X, y).certificate_.rounding < 1e-12
