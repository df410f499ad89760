"""Estimators that make features of their data themselves."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import taut
from taut import BinarySVM, ChainSVM, MulticlassSVM
from taut.errors import InvalidData, InvalidFile, InvalidType
from taut.exports import to_crfsuite
from taut.features import RowFeatures, SequenceFeatures, TextFeatures
from taut.features.columns import Vocabulary

X = [["the", "cat", "sleeps"], ["a", "dog", "barks"], ["the", "dog", "sleeps"], ["a", "cat"]] * 3
Y = [["D", "N", "V"], ["D", "N", "V"], ["D", "N", "V"], ["D", "N"]] * 3
TEXTS = ["good film", "very good", "bad film", "very bad", "fair film", "very fair"] * 2
KINDS = ["+", "+", "-", "-", "0", "0"] * 2
SETTING = {"C": 1.0, "random_state": 0}


@pytest.fixture(scope="module")
def tagger():
    return ChainSVM(features=SequenceFeatures(), **SETTING).fit(X, Y)


@pytest.fixture(scope="module")
def sorter():
    return MulticlassSVM(features=TextFeatures((1, 2)), **SETTING).fit(TEXTS, KINDS)


def plain(labels):
    return [list(part) for part in labels]


def test_features_inside_and_in_front_are_the_same(tagger):
    extractor = SequenceFeatures().fit(X)
    stacked = extractor.transform(X)
    in_front = ChainSVM(**SETTING).fit(stacked, Y)
    assert np.array_equal(in_front.coef_, tagger.coef_)
    listed = ChainSVM(**SETTING).fit(list(stacked), Y)
    assert np.array_equal(listed.coef_, tagger.coef_)
    unknown = [["the", "mouse", "sleeps"]]
    assert plain(tagger.predict(unknown)) == plain(in_front.predict(extractor.transform(unknown)))
    assert tagger.score(X, Y) == 1.0
    piped = make_pipeline(SequenceFeatures(), ChainSVM(**SETTING)).fit(X, Y)
    assert np.array_equal(piped[-1].coef_, tagger.coef_)


def test_sequences_and_flat_tokens_are_the_same(tagger):
    flat = [token for sequence in X for token in sequence]
    labels = [label for sequence in Y for label in sequence]
    lengths = [len(sequence) for sequence in X]
    model = ChainSVM(features=SequenceFeatures(), **SETTING).fit(flat, labels, lengths=lengths)
    assert np.array_equal(model.coef_, tagger.coef_)
    assert model.predict(flat, lengths=lengths).tolist() == labels
    with pytest.raises(InvalidData, match="lengths sum to 3"):
        model.predict(flat, lengths=[3])


@pytest.mark.parametrize("settings_", [{}, {"hashing": 64}, {"min_count": 2, "template": None}])
def test_saved_models_answer_the_same(tmp_path, tagger, settings_):
    model = tagger
    if settings_:
        model = ChainSVM(features=SequenceFeatures(**settings_), **SETTING).fit(X, Y)
    model.save(tmp_path / "model.taut")
    again = taut.load(tmp_path / "model.taut")
    assert plain(again.predict(X)) == plain(model.predict(X))
    names = [each.features_.get_feature_names_out().tolist() for each in (model, again)]
    assert names[0] == names[1]
    assert again.features_.get_params() == model.features_.get_params()
    assert again.top_features(3) == model.top_features(3)
    assert clone(again).fit(X, Y).features_.n_features_out_ == model.features_.n_features_out_


def test_saved_classifiers_answer_the_same(tmp_path, sorter):
    sorter.save(tmp_path / "model.taut")
    again = taut.load(tmp_path / "model.taut")
    assert again.predict(TEXTS).tolist() == KINDS
    assert np.array_equal(again.decision_function(TEXTS), sorter.decision_function(TEXTS))


def test_files_whose_names_do_not_agree_are_refused(tmp_path, tagger):
    from taut.storage import files

    tagger.save(tmp_path / "model.taut")
    tensors, meta = files.read(tmp_path / "model.taut", "model")
    sizes = tensors["features_.sizes"].copy()
    sizes[0] += 1
    for wrong in (sizes, sizes[:-1], sizes.astype(np.int64)):
        files.write(tmp_path / "wrong.taut", "model", tensors | {"features_.sizes": wrong}, meta)
        with pytest.raises(InvalidFile, match="inconsistent"):
            taut.load(tmp_path / "wrong.taut")


def test_searches_reach_the_extractor():
    search = GridSearchCV(
        ChainSVM(features=SequenceFeatures(), **SETTING), {"features__min_count": [1, 2]}, cv=2
    ).fit(X, Y)
    assert search.best_score_ > 0.8
    assert search.best_estimator_.features_.min_count == search.best_params_["features__min_count"]
    scores = cross_val_score(make_pipeline(TextFeatures(), BinarySVM(**SETTING)),
                             TEXTS[:4] * 3, KINDS[:4] * 3, cv=3)  # fmt: skip
    assert scores.min() == 1.0


def test_top_features_have_the_largest_weights(sorter):
    names = sorter.features_.get_feature_names_out()
    for against, sign in ((False, 1.0), (True, -1.0)):
        top = sorter.top_features(2, against=against)
        for label, row in zip(sorter.classes_, sorter.coef_, strict=True):
            order = np.argsort(-sign * row, kind="stable")[:2]
            assert [weight for _, weight in top[label]] == row[order].tolist()
            assert {name for name, _ in top[label]} == set(names[order])
    assert sorter.top_features(1)["+"][0][0] == "good"
    with pytest.raises(InvalidData, match="n = 0"):
        sorter.top_features(0)


def test_top_features_of_two_classes_and_of_data_frames():
    frame = pd.DataFrame({"size": [1.0, 2.0, -1.0, -2.0], "none": 0.0})
    model = BinarySVM(**SETTING).fit(frame, ["big", "big", "small", "small"])
    assert model.top_features() == {"big": [("size", -model.coef_[0, 0])], "small": []}
    assert model.top_features(against=True)["small"] == [("size", model.coef_[0, 0])]
    unnamed = BinarySVM(**SETTING).fit(frame.to_numpy(), [1, 1, 0, 0])
    assert unnamed.top_features(1)[1] == [("x0", unnamed.coef_[0, 0])]


def test_top_transitions_have_the_largest_weights(tagger):
    top = tagger.top_transitions(2)
    assert {pair[:2] for pair in top} == {("D", "N"), ("N", "V")}
    weights = sorted(tagger.transition_.ravel(), reverse=True)
    assert [pair[2] for pair in top] == weights[:2]
    assert tagger.top_transitions(1, against=True)[0][2] == weights[-1]


def test_tables_of_text_train_and_score(tmp_path):
    (tmp_path / "a.conll").write_text("\n\n".join(
        "\n".join(map(" ".join, zip(words, labels, strict=True)))
        for words, labels in zip(X, Y, strict=True)
    ))  # fmt: skip
    table = taut.read(tmp_path / "a.conll")
    model = ChainSVM(features=SequenceFeatures(), **SETTING).fit(table)
    assert model.score(table) == 1.0
    assert len(model.predict(table)) == len(X)


def test_certify_sees_through_the_extractor(sorter):
    assert taut.certify(sorter, TEXTS, KINDS).gap <= 2 * sorter.certificate_.gap + 1e-9


def test_certify_refuses_an_extractor_with_other_columns(tmp_path, sorter, tagger):
    sorter.save(tmp_path / "sorter.taut")
    tagger.save(tmp_path / "tagger.taut")
    found = taut.certify(taut.load(tmp_path / "tagger.taut"), X, Y)
    assert found.gap <= 2 * tagger.certificate_.gap + 1e-9
    changed = taut.load(tmp_path / "sorter.taut")
    names = changed.features_.columns_.names()
    changed.features_.columns_ = Vocabulary.of(names[::-1])
    assert changed.predict(TEXTS).tolist() != KINDS
    with pytest.raises(InvalidData, match="features_ of the model is not what fit leaves"):
        taut.certify(changed, TEXTS, KINDS)


def test_dumps_name_the_features_of_the_extractor(tmp_path, tagger):
    to_crfsuite(tagger, tmp_path / "dump")
    dump = (tmp_path / "dump").read_text()
    assert all(f": {name}\n" in dump for name in tagger.features_.get_feature_names_out())


def test_what_is_no_extractor_is_refused(tmp_path):
    with pytest.raises(InvalidType, match="give an extractor"):
        ChainSVM(features="default").fit(X, Y)
    with pytest.raises(InvalidType, match="give an extractor"):
        ChainSVM(features=SequenceFeatures).fit(X, Y)
    with pytest.raises(InvalidData, match="looks at all data"):
        ChainSVM(features=SequenceFeatures()).partial_fit(X, Y)
    stream = taut.data.Stream([(np.eye(2), [0, 1])])
    with pytest.raises(InvalidData, match="looks at all data"):
        MulticlassSVM(features=RowFeatures()).fit(stream)


def test_extractors_of_others_work_and_are_not_saved(tmp_path):
    from sklearn.feature_extraction.text import CountVectorizer

    model = MulticlassSVM(features=CountVectorizer(dtype=np.float32), **SETTING).fit(TEXTS, KINDS)
    assert model.predict(TEXTS).tolist() == KINDS
    assert model.top_features(1)["+"][0][0] == "good"
    with pytest.raises(InvalidType, match="not one of taut's extractors"):
        model.save(tmp_path / "model.taut")
