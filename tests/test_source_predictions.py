"""Predictions and scores of sources, read chunk by chunk: those of the same data in memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from taut import BinarySVM, LatentMulticlassSVM, LatentStructuredSVM, LatentSVM, StructuredSVM
from taut.data import Stream, write_shards
from taut.errors import InvalidData
from taut.structures import Bags, Multiclass
from test_estimators import (
    CASES,
    CODES,
    ROWS,
    SEQUENCES,
    WEIGHT,
    assert_same_labels,
    fitted,
)
from test_latent import NAMES as BAG_NAMES
from test_latent import X as BAGS
from test_online_estimators import KINDS, pieces, source


@pytest.mark.parametrize("how", ["shards", "stream"])
@pytest.mark.parametrize("name", CASES)
def test_predictions_are_those_of_data_in_memory(name, how, tmp_path):
    if (name, how) == ("structured", "shards"):
        pytest.skip("shards hold rows")
    case, model = CASES[name], fitted(name)
    data = source(name, how, tmp_path / "set")
    assert len(list(data.chunks())) > 1
    assert_same_labels(model.predict(data), model.predict(case.X))
    assert_allclose(model.score(data), model.score(case.X, case.y))


@pytest.mark.parametrize("name", ["binary", "multiclass", "regression", "chain", "pairwise"])
def test_weights_of_a_source_count(name, tmp_path):
    case, model = CASES[name], fitted(name)
    weight = WEIGHT[: len(case.X)].copy()
    weight[:4] = 0.0  # a whole part of the stream
    data = source(name, "stream", tmp_path, weight=weight)
    assert_allclose(model.score(data), model.score(case.X, case.y, weight))
    assert model.score(data) != pytest.approx(model.score(case.X, case.y))


@pytest.mark.parametrize("metric", ["accuracy", "sequence"])
def test_measures_of_sequences(metric, tmp_path):
    case, model = CASES["chain"], fitted("chain")
    data = source("chain", "shards", tmp_path / "set")
    assert_allclose(model.score(data, metric=metric), model.score(case.X, case.y, metric=metric))


@pytest.mark.parametrize("kind", [LatentSVM, LatentMulticlassSVM])
def test_bags(kind, tmp_path):
    model = kind(C=0.5, random_state=0).fit(BAGS, BAG_NAMES)
    for data in (
        write_shards(tmp_path / "set", BAGS, BAG_NAMES, chunk_size=200),
        Stream(pieces(BAGS, BAG_NAMES), kind="sequences"),
    ):
        assert_same_labels(model.predict(data), model.predict(BAGS))
        assert_allclose(model.decision_function(data), model.decision_function(BAGS))
        assert_allclose(model.score(data), model.score(BAGS, BAG_NAMES))


class Unchecked(Multiclass):
    """One that takes rows as users give them."""

    takes_checked = False

    def encode(self, X, y=None):
        assert isinstance(X, np.ndarray)
        return super().encode(X, y)


@pytest.mark.parametrize("structure", [Multiclass(3), Unchecked(3)])
def test_structures_of_rows(structure, tmp_path):
    model = StructuredSVM(structure, random_state=0).fit(ROWS, CODES)
    data = write_shards(tmp_path / "rows", ROWS, CODES, chunk_size=200)
    assert_same_labels(model.predict(data), model.predict(ROWS))
    assert_allclose(model.score(data), model.score(ROWS, CODES))


def test_latent_structures(tmp_path):
    y = np.where([name == BAG_NAMES[0] for name in BAG_NAMES], 0, -1)
    X = np.vstack(BAGS), np.concatenate([[0], np.cumsum([len(bag) for bag in BAGS])])
    latent = LatentStructuredSVM(Bags(1.0), random_state=0).fit(X, y)
    data = write_shards(tmp_path / "bags", BAGS, y, chunk_size=200)
    assert_same_labels(latent.predict(data), latent.predict(X))
    assert_allclose(latent.score(data), latent.score(X, y))


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba", "decision_function"])
def test_other_answers(method, tmp_path):
    case = CASES["binary"]
    model = BinarySVM(C=0.7, random_state=0).fit(ROWS, case.y).fit_temperature(ROWS, case.y)
    data = source("binary", "shards", tmp_path / "set")
    assert_allclose(getattr(model, method)(data), getattr(model, method)(ROWS))


@pytest.mark.parametrize("name", ["binary", "regression", "chain", "pairwise", "structured"])
def test_nothing_is_given_beside_a_source(name, tmp_path):
    case = CASES[name]
    data = source(name, "stream", tmp_path)
    with pytest.raises(InvalidData, match=r"y is given beside a source of data, .*leave it out"):
        fitted(name).score(data, case.y)


def test_targets_are_needed_for_scores():
    data = Stream([(ROWS, None)])
    assert len(fitted("binary").predict(data)) == len(ROWS)
    with pytest.raises(InvalidData, match="the source has no targets to compare predictions with"):
        fitted("binary").score(data)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("binary", "sequences", "the source holds sequences, and BinarySVM takes rows"),
        ("chain", "rows", "the source holds rows, and ChainSVM takes sequences"),
    ],
)
def test_sources_of_another_kind_are_refused(name, kind, words):
    assert KINDS[name] != kind
    data = Stream([(ROWS if kind == "rows" else SEQUENCES, None)], kind=kind)
    with pytest.raises(InvalidData, match=words):
        fitted(name).predict(data)
