"""Samplers against enumeration: the argmax first, what their names say after it, no label twice."""

import functools
import itertools

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cases import STRUCTURES, chain, long_if, tags
from own_structures import CompiledTags, ListedCompiledTags, ListedTags, Tags
from taut import Problem, Regularizer, check_structure
from taut.binding import CompiledData, PythonData
from taut.compiled.jit import helper
from taut.compiled.lanes import aligned_zeros
from taut.errors import InvalidData, InvalidStructure, MissingOracle
from taut.sampling import AllLabels, Argmax, Diverse, Given, MBest, Own, Random, Top, as_sampler
from taut.spaces.labels import score_of

ROW = r"\[[01], [01], [01]\]"


class TagsInOrder(Tags):
    """With the best labels in order, and a sample that is the best ones."""

    def m_best(self, x, w, truth, count):
        def value(label):
            return w @ self.features(x, label) + self.loss(truth, label)

        return sorted(self.subsets, key=value, reverse=True)[:count]

    def sample(self, x, w, truth, count):
        return self.m_best(x, w, truth, count)


def flipped(data, i, work, loss_weight, seed, found):
    """The best set of tags, and the same with another single tag flipped in each row."""
    best, value = 0, -1e30
    m = found.shape[1]
    for subset in range(2**m):
        total = 0.0
        pair = data[1]
        for a in range(m):
            mine = (subset >> a) & 1
            total += work[a] * mine + loss_weight * (mine != data[0][i, a])
            for b in range(a + 1, m):
                total += work[pair] * mine * ((subset >> b) & 1)
                pair += 1
        if total > value:
            best, value = subset, total
    count = min(found.shape[0], m + 1)
    for q in range(count):
        for a in range(m):
            found[q, a] = ((best >> a) & 1) ^ (q > 0 and (q + seed) % m == a)
    return count


class SampledTags(CompiledTags):
    sample = staticmethod(flipped)


def best_and_truth(structure, x, w, truth, count):
    return [structure.argmax(x, w, truth), truth][:count]


CASES = STRUCTURES | {
    "listed": tags(ListedCompiledTags),
    "listed-plain": tags(ListedTags),
    "ordered-plain": tags(TagsInOrder),
    "sampled": tags(SampledTags),
}

#: Samplers with the structures that they are tested on; "listed" tags have no inner products.
ON = {
    Argmax(): ["latent-multiclass-cost-bias", "tags-plain"],
    AllLabels(): ["multiclass-bias", "scalar", "listed-plain"],
    Top(): [
        "multiclass-bias", "multiclass-single", "multiclass-cost-bias", "multiclass-slack-bias",
        "scalar", "listed-plain", "tags-plain-slack",
    ],
    MBest(): ["chain", "tree", "ordered-plain"],
    Diverse(): ["multiclass-bias", "chain", "listed", "listed-plain", "ordered-plain"],
    Random(): ["multiclass-bias", "chain", "listed-plain"],
    Own(): ["sampled", "ordered-plain"],
    Given(flipped): ["tags-compiled"],
}  # fmt: skip
#: Those that are tested with a prior as well: compiling for all takes long.
THROUGH_A_PRIOR = {
    "top": ["multiclass-bias", "listed-plain"],
    "diverse": ["chain", "listed-plain"],
    "random": ["chain"],
    "own": ["sampled"],
    "given": ["tags-compiled"],
}
#: Those that share all but an oracle with others.
LONG = [
    ("multiclass-single", "top", False),
    ("tree", "m_best", False),
    ("chain", "diverse", True),
    ("chain", "random", True),
    ("tags-compiled", "given", True),
]


def runs(*names):
    """Structure, sampler, and whether there is a prior."""
    return [
        long_if(
            (name, sampler.name, prior) in LONG,
            name,
            sampler,
            prior,
            id=f"{name}-{sampler.name}{'-prior' * prior}",
        )
        for sampler, structures in ON.items()
        for name in structures
        for prior in (False, True)
        if not names or sampler.name in names
        if not prior or name in THROUGH_A_PRIOR.get(sampler.name, ())
    ]


def prior_of(case, n):
    rng = np.random.default_rng(n)
    return Regularizer(rng.normal(size=n), rng.uniform(0.2, 5.0, n), rng.random(n) < 0.3)


def bound(case, prior=False):
    n = case.reference[0][0].shape[1]
    regularizer = prior_of(case, n) if prior else None
    return Problem(case.structure, *case.data(), regularizer=regularizer).data


@functools.cache
def visit(make):
    """A visit: what is found, the truth's score, and scores before and after."""

    def build(oracles):
        pull, score, sample = oracles.pull, score_of(oracles), helper(make(oracles))

        def run(
            space, data, i, w, work, loss_weight, seed, room, found, values, labels, before, after
        ):
            pull(space, i, w, work)
            for q in range(labels.shape[0]):
                before[q] = score(data, i, work, labels[q])
            count = sample(data, i, work, loss_weight, seed, room, found, values)
            for q in range(labels.shape[0]):
                after[q] = score(data, i, work, labels[q])
            return count

        return run

    return build


def drawn(data, sampler, i, v, count, seed=1, loss_weight=1.0, rows=None):
    """Labels as tuples, and their score + loss less the truth's score."""
    sampler = as_sampler(sampler, data)
    count = rows or sampler.n_labels(data, count)
    if isinstance(data, PythonData):
        w = data.prior.weights(v)
        labels, error = sampler.labels(data, i, w, count, np.random.default_rng(seed))
        assert error == 0.0
        values = [loss - psi @ data.point(v) for psi, loss in data.planes(i, labels)]
        return list(map(key, labels)), np.array(values)
    truth = data.blocks.truth[data.blocks.offsets[i] : data.blocks.offsets[i + 1]]
    found, values = np.empty((count, len(truth)), dtype=np.int32), np.full(count, -7.0)
    padded = data.pad(v.astype(data.dtype))
    before, after = np.empty((2, 1))
    number = data.kernel(visit(sampler.make))(
        data.space(data.dtype), data.blocks.data, i, padded,
        aligned_zeros(data.blocks.work_size, data.dtype), loss_weight, seed,
        sampler.room(data, count, data.dtype), found, values, truth[None],
        before, after,
    )  # fmt: skip
    assert_array_equal(before, after)
    assert_array_equal(data.unpad(padded), v.astype(data.dtype))
    assert 1 <= number <= count
    assert (values[number:] == -7.0).all()
    return list(map(key, found[:number])), values[:number] - before[0]


def key(label):
    return tuple(np.ravel(label).tolist())


def truth_of(case, data, i):
    if isinstance(data, PythonData):
        return key(data.truth[i])
    return key(data.blocks.truth[data.blocks.offsets[i] : data.blocks.offsets[i + 1]])


def violations(case, data, i, v, loss_weight=1.0):
    """The violation of each label by enumeration, without the truth."""
    psi, losses = case.reference[0][i], case.reference[1][i]
    values = loss_weight * losses - psi @ data.prior.weights(v)
    every = dict(zip(map(key, case.labels(i)), values, strict=True))
    every.pop(truth_of(case, data, i), None)
    return every


def points(case, data, rng):
    """Blocks, and v under which losses count much, some and little."""
    for i in range(case.n_blocks):
        for scale in (0.1, 1.0, 30.0):
            yield i, scale * rng.normal(size=data.n_features)


def tolerance(data, every):
    exact = data.dtype is np.float64
    return (1e-10 if exact else 1e-4) * (1.0 + max(map(abs, every.values()), default=0.0))


@pytest.mark.parametrize(("name", "sampler", "prior"), runs())
def test_the_argmax_comes_first_and_no_label_twice(name, sampler, prior, rng):
    case = CASES[name]
    data = bound(case, prior)
    for i, v in points(case, data, rng):
        every, truth = violations(case, data, i, v), truth_of(case, data, i)
        for count in (1, 3, 1000):
            labels, values = drawn(data, sampler, i, v, count)
            atol = tolerance(data, every)
            assert len(set(labels)) == len(labels)
            assert_allclose(values[0], max([0.0, *every.values()]), atol=atol)
            expected = [0.0 if label == truth else every[label] for label in labels]
            assert_allclose(values, expected, atol=atol)
            if sampler.name not in ("own", "given") and name != "ordered-plain":
                assert truth not in labels[1:]


@pytest.mark.parametrize(("name", "sampler", "prior"), runs("all", "top", "m_best"))
def test_the_best_are_those_of_enumeration(name, sampler, prior, rng):
    case = CASES[name]
    data = bound(case, prior)
    # Plain oracles weigh no losses, and rescaled slacks need them.
    weighs = isinstance(data, CompiledData) and "slack" not in name
    for i, v in points(case, data, rng):
        for loss_weight in (0.0, 1.0, 3.0) if weighs else (1.0,):
            every = violations(case, data, i, v, loss_weight)
            best = sorted(every.values(), reverse=True)
            if name == "ordered-plain":  # the truth is one of its labels
                best = sorted([0.0, *best], reverse=True)
            elif not best or best[0] < 0.0:
                best = [0.0, *best]
            for wanted in (1, 2, 3, 1000):
                values = drawn(data, sampler, i, v, wanted, loss_weight=loss_weight)[1]
                count = wanted
                if sampler.name != "m_best":
                    values = sorted(values, reverse=True)
                if sampler.name == "all":
                    count = len(best)
                assert_allclose(values, best[:count], atol=tolerance(data, every))


@pytest.mark.parametrize("name", ["multiclass-bias", "scalar", "listed-plain"])
def test_the_argmax_has_a_row_where_there_are_too_few_for_all(name, rng):
    case = CASES[name]
    data = bound(case)
    for i, v in points(case, data, rng):
        every = violations(case, data, i, v)
        for rows in (1, 2):
            labels, values = drawn(data, "all", i, v, 1000, rows=rows)
            assert len(labels) <= rows
            assert len(set(labels)) == len(labels)
            assert_allclose(values[0], max([0.0, *every.values()]), atol=tolerance(data, every))


def test_ties_are_all_found():
    on = ("multiclass-bias", Top()), ("chain", MBest()), ("listed-plain", Top())
    for name, sampler in on:
        case = CASES[name]
        data = bound(case)
        for i in range(case.n_blocks):
            every = violations(case, data, i, np.zeros(data.n_features))
            labels, values = drawn(data, sampler, i, np.zeros(data.n_features), 1000)
            assert sorted(labels) == sorted(every)
            assert_allclose(values, sorted(every.values(), reverse=True))


def rows_of(case, i):
    """psi of each label of a block."""
    return dict(zip(map(key, case.labels(i)), case.reference[0][i], strict=True))


def cosine(a, b):
    length = np.linalg.norm(a) * np.linalg.norm(b)
    return a @ b / length if length > 0.0 else 0.0


@pytest.mark.parametrize(("name", "sampler", "prior"), runs("diverse"))
def test_diverse_labels_are_the_best_trades(name, sampler, prior, rng):
    case, sampler = CASES[name], Diverse(pool=1000, diversity=0.7)
    data = bound(case, prior)
    for i, v in points(case, data, rng):
        every, truth = violations(case, data, i, v), truth_of(case, data, i)
        psi = {label: data.prior.plane(row) for label, row in rows_of(case, i).items()}
        psi[truth] = np.zeros(data.n_features)
        labels, values = drawn(data, sampler, i, v, 4)
        assert len(labels) == min(4, len(every) + (labels[0] == truth))
        price = 0.7 * max(values[0], 0.0)
        for q in range(1, len(labels)):
            trades = {
                label: every[label] - price * max(cosine(psi[label], psi[k]) for k in labels[:q])
                for label in every
                if label not in labels[:q]
            }
            best = max(trades.values())
            assert_allclose(trades[labels[q]], best, atol=10.0 * tolerance(data, every))


def test_without_a_price_diverse_labels_are_the_best(rng):
    case = CASES["chain"]
    data = bound(case)
    for i, v in points(case, data, rng):
        best = drawn(data, MBest(), i, v, 5)
        for one, other in zip(drawn(data, Diverse(diversity=0.0), i, v, 5), best, strict=True):
            assert_array_equal(one, other)


def test_diverse_labels_have_smaller_cosines(rng):
    """The labels that are chosen are less alike than the best ones."""
    case = CASES["chain"]
    data = bound(case)
    psi = rows_of(case, 1)

    def mean_cosine(sampler, v):
        labels, _values = drawn(data, sampler, 1, v, 5)
        return np.mean([cosine(psi[a], psi[b]) for a, b in itertools.combinations(labels, 2)])

    v = 0.1 * rng.normal(size=data.n_features)
    assert mean_cosine(Diverse(pool=8), v) < mean_cosine(MBest(), v) - 0.05


@pytest.mark.parametrize("name", ["multiclass-bias", "chain", "listed-plain"])
def test_random_labels_follow_the_seed(name, rng):
    case = CASES[name]
    data, i = bound(case), 1
    v = rng.normal(size=data.n_features)
    every = violations(case, data, i, v)
    draws = [drawn(data, "random", i, v, 3, seed)[0] for seed in range(1, 301)]
    assert draws == [drawn(data, "random", i, v, 3, seed)[0] for seed in range(1, 301)]
    assert len({labels[0] for labels in draws}) == 1
    others = set(every) - {draws[0][0]}
    counts = {label: sum(label in labels[1:] for labels in draws) for label in others}
    expected = 600 / len(others)
    assert sum(counts.values()) == 600
    assert max(counts.values()) < expected + 5.0 * np.sqrt(expected)
    assert min(counts.values()) > expected - 5.0 * np.sqrt(expected)


@pytest.mark.parametrize("name", ["multiclass-bias", "chain", "listed-plain"])
def test_random_labels_are_all_there_are(name, rng):
    case = CASES[name]
    data = bound(case)
    for i, v in points(case, data, rng):
        labels, _values = drawn(data, "random", i, v, 1000)
        assert sorted({*labels, truth_of(case, data, i)} - {truth_of(case, data, i)}) == sorted(
            violations(case, data, i, v)
        )


def test_samples_of_the_structure_and_of_a_function_are_the_same(rng):
    one, other = bound(CASES["sampled"]), bound(CASES["tags-compiled"])
    for i, v in points(CASES["sampled"], one, rng):
        for seed in (1, 2):
            expected = drawn(one, "auto", i, v, 3, seed)
            for function in (flipped, Given(flipped, allocates=False)):
                for a, b in zip(drawn(other, function, i, v, 3, seed), expected, strict=True):
                    assert_array_equal(a, b)


def test_plain_samples(rng):
    case = CASES["ordered-plain"]
    data = bound(case)
    for i, v in points(case, data, rng):
        for sampler in ("auto", "m_best"):
            labels = as_sampler(sampler, data).labels(data, i, v, 3, rng)[0]
            assert labels == case.structure.m_best(data.X[i], v, data.truth[i], 3)
        own = as_sampler(best_and_truth, data).labels(data, i, v, 3, rng)[0]
        assert own == [case.structure.argmax(data.X[i], v, data.truth[i]), data.truth[i]]


def test_the_first_label_has_the_error_of_an_argmax_that_is_not_exact(rng):
    class Inexact(TagsInOrder):
        labels = ListedTags.labels

        def bounded_argmax(self, x, w, truth=None):
            return self.m_best(x, w, truth or (0, 0, 0), 2)[1], 2.5

    data = bound(tags(Inexact))
    v = rng.normal(size=data.n_features)
    best, second, third = data.structure.m_best(data.X[0], v, data.truth[0], 3)
    for sampler in (Own(), MBest(), Given(lambda own, *arguments: own.sample(*arguments))):
        labels, error = as_sampler(sampler, data).labels(data, 0, v, 3, rng)
        assert error == 2.5
        assert labels[0] == second
        assert next(label for label in labels[1:] if label != data.truth[0]) in (best, third)
    assert Random().labels(data, 0, v, 3, rng)[1] == 2.5
    labels, error = Top().labels(data, 0, v, 3, rng)  # tries all
    assert error == 0.0
    assert labels[0] == best


def test_a_function_that_finds_nothing_is_named(rng):
    data = bound(CASES["tags-plain"])

    def nothing(structure, x, w, truth, count):
        return []

    with pytest.raises(InvalidStructure, match=r"Tags: nothing returns no labels of example 2: re"):
        as_sampler(nothing, data).labels(data, 2, np.zeros(data.n_features), 3, rng)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("multiclass-bias", "top"),
        ("chain", "m_best"),
        ("tree", "m_best"),
        ("pairwise", "argmax"),
        ("bags-bias", "argmax"),
        ("latent-multiclass-cost-bias", "argmax"),
        ("multiclass-slack-bias", "top"),
        ("sampled", "own"),
        ("tags-compiled", "argmax"),
        ("tags-plain", "argmax"),
        ("listed-plain", "top"),
        ("tags-plain-slack", "top"),
        ("ordered-plain", "own"),
    ],
)
def test_what_auto_means(name, expected):
    assert as_sampler("auto", bound(CASES[name])).name == expected


@pytest.mark.parametrize(
    ("name", "sampler", "message"),
    [
        ("chain", "all", r'sampler="all" needs all_labels, .*, which Chain does not have: wri'),
        ("bags-bias", "top", r'sampler="top" needs all_labels, .* Bags .* use sampler="m_best"'),
        ("bags-bias", "m_best", r'sampler="m_best" needs the scores of single labels .* Bags'),
        ("pairwise", "diverse", r'sampler="diverse" needs all_labels, or Blocks\.n_labels and'),
        ("pairwise", "random", r'sampler="random" needs all_labels, or .* PairwiseRanking'),
        ("chain", "own", r'sampler="own" needs sample\(data, i, .* Chain .* use sampler="auto"'),
        ("tags-plain", "top", r'sampler="top" needs a method labels\(x\) .* which Tags does not'),
        ("tags-plain", "m_best", r'sampler="m_best" needs a method m_best\(x, w, truth, count\)'),
        ("tags-plain", "diverse", r'"diverse" needs a method labels\(x\), or m_best'),
        ("ordered-plain", "random", r'"random" needs a method labels\(x\) .* TagsInOrder'),
        ("tags-plain", "own", r'sampler="own" needs a method sample\(x, w, truth, count\)'),
        ("bags-bias", Diverse(source=Top()), r'sampler="top" needs all_labels'),
    ],
)
def test_what_a_structure_does_not_have_is_named(name, sampler, message):
    with pytest.raises(MissingOracle, match=message):
        as_sampler(sampler, bound(CASES[name]))


def test_what_is_no_sampler_is_refused():
    data = bound(CASES["multiclass-bias"])
    for sampler in ("best", Top, ["top"]):
        with pytest.raises(InvalidData, match=r"sampler is .*: give \"auto\", 'argmax', 'all'"):
            as_sampler(sampler, data)
    for options in ({"pool": 0}, {"diversity": -1.0}, {"diversity": np.nan}):
        with pytest.raises(
            InvalidData, match=r"Diverse has pool=\d and diversity=\S+: give a pool"
        ):
            Diverse(**options)


def test_equal_samplers_have_one_kernel():
    assert Given(flipped).make is Given(numba.njit(flipped)).make
    assert Diverse(source=Top()).make is Diverse(8, source=Top()).make
    assert Diverse(source=Top()).make is not Diverse(source=MBest()).make


def test_rooms_do_not_share_what_threads_write(rng):
    data = bound(chain(), prior=True)
    rooms = [as_sampler("diverse", data).room(data, 2, np.float64) for _ in range(2)]
    assert rooms[0].products.space.scaling.weights is not rooms[1].products.space.scaling.weights
    assert isinstance(data, CompiledData)


# Laws of `sample`, each broken once.


def test_samples_keep_the_laws():
    for name in ("sampled", "ordered-plain"):
        case = CASES[name]
        structure = case.structure
        rows = case.labels if name == "sampled" else lambda x, s=structure: s.subsets
        check_structure(structure, *case.data(), candidates=rows)
        check_structure(structure, *case.data())


right = helper(flipped)


def argmax_is_second(data, i, work, loss_weight, seed, found):
    count = right(data, i, work, loss_weight, seed, found)
    if count > 1:
        for a in range(found.shape[1]):
            found[0, a], found[1, a] = found[1, a], found[0, a]
    return count


def one_twice(data, i, work, loss_weight, seed, found):
    count = right(data, i, work, loss_weight, seed, found)
    for a in range(found.shape[1]):
        found[count - 1, a] = found[0, a]
    return count


def no_label(data, i, work, loss_weight, seed, found):
    count = right(data, i, work, loss_weight, seed, found)
    found[count - 1, 0] = 2 if count > 1 else found[0, 0]
    return count


def none_at_all(data, i, work, loss_weight, seed, found):
    return 0


def too_many(data, i, work, loss_weight, seed, found):
    return right(data, i, work, loss_weight, seed, found) + 1


def outside(data, i, work, loss_weight, seed, found):
    found[found.shape[0], 0] = 0
    return right(data, i, work, loss_weight, seed, found)


def spends_work(data, i, work, loss_weight, seed, found):
    count = right(data, i, work, loss_weight, seed, found)
    work[0] += 1.0
    return count


def outside_work(data, i, work, loss_weight, seed, found):
    work[work.shape[0]] = 0.0
    return right(data, i, work, loss_weight, seed, found)


def other_draws(data, i, work, loss_weight, seed, found):
    number = np.random.randint(1000)  # noqa: NPY002
    return right(data, i, work, loss_weight, number, found)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (argmax_is_second, rf"Spoilt\.sample on .*: it returns {ROW} first, whose .*, while {ROW}"),
        (one_twice, rf"sample on example 0: it returns {ROW} twice; return each label once"),
        (no_label, r"it returns \[2, \d, \d\], which is none of the candidates"),
        (none_at_all, r"it returns 0 for 1 rows; return how many labels it wrote"),
        (too_many, r"it returns 2 for 1 rows"),
        (outside, r"it writes outside found, which has 1 rows of 3 integers"),
        (spends_work, r"it makes \S+ of potential 0, which was \S+; keep the potentials in"),
        (outside_work, r"sample on example 0: it writes outside work, whose length is 8"),
        (other_draws, r"with the seed [0-9]+ it returns other labels when it is asked again"),
    ],
)
def test_broken_samples_are_named(broken, message):
    case = tags(type("Spoilt", (CompiledTags,), {"sample": staticmethod(broken)}))
    with pytest.raises(InvalidStructure, match=message):
        check_structure(case.structure, *case.data(), candidates=case.labels, n_examples=2)


class SecondFirst(TagsInOrder):
    def sample(self, x, w, truth, count):
        return super().sample(x, w, truth, count + 1)[1:]


class Twice(TagsInOrder):
    def sample(self, x, w, truth, count):
        return (super().sample(x, w, truth, 1) * 2)[:count]


class NoLabel(TagsInOrder):
    def sample(self, x, w, truth, count):
        return [*super().sample(x, w, truth, 1), (2, 0, 0)][:count]


class Nothing(TagsInOrder):
    def sample(self, x, w, truth, count):
        return []


class TooMany(TagsInOrder):
    def sample(self, x, w, truth, count):
        return super().sample(x, w, truth, count + 1)


class ModifiesW(TagsInOrder):
    def sample(self, x, w, truth, count):
        labels = super().sample(x, w, truth, count)
        w[0] += 1.0
        return labels


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (SecondFirst, r"sample on .*: it returns \(.*\) first, whose score \+ loss is .*, while"),
        (Twice, r"sample on example 0: it returns \(.*\) twice; return each label once"),
        (NoLabel, r"it returns \(2, 0, 0\), which is none of the candidates; return labels of"),
        (Nothing, r"it returns 0 labels, asked for 1; return at least 1 label and at most"),
        (TooMany, r"it returns 2 labels, asked for 1"),
        (ModifiesW, r"sample on example 0: it modifies w; work on a copy of w"),
    ],
)
def test_broken_plain_samples_are_named(broken, message):
    case = tags(broken)
    with pytest.raises(InvalidStructure, match=message):
        check_structure(case.structure, *case.data(), candidates=lambda x: case.structure.subsets)
