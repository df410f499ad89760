"""The laws of a structure, tested on the user's own data by enumeration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from taut.structures._compiled_examples import CompiledExample, digests_of
from taut.structures._examples import PRECISION, Candidates, Example
from taut.structures._listed_laws import labels_of
from taut.structures._plain_examples import PlainExample
from taut.structures._signatures import check_signatures
from taut.structures.abilities import ability
from taut.structures.base import CompiledStructure, Structure


def check_structure(
    structure: Structure | CompiledStructure,
    X: Any,
    y: Any,
    *,
    candidates: Candidates | None = None,
    n_examples: int = 5,
    n_weights: int = 5,
    random_state: int | np.random.Generator | None = 0,
) -> None:
    """Test the laws of a structure on some examples, and raise the first that is broken.

    A structure that breaks them trains a wrong model under a wrong certificate. The laws: the loss
    is zero for the truth and never negative, unless a compiled structure has `signed_losses`;
    features are finite and of one length; both are the same when asked for twice; the argmax
    is the argmax, with the loss and without, or within the error that `bounded_argmax` states; a
    latent part is completed at no loss, and no worse than it was; a `sample` begins with the argmax
    and has no label twice; w and the data stay as they are. For a compiled structure also: `argmax`
    returns its label's value and keeps the potentials, `parts` names potentials that there are and
    returns their sum, `pull` and `push` are linear and belong together, `exact_step` maximises the
    block's dual, means and what they spread to are those of their labels, and nothing is written
    outside the arrays.

    Parameters
    ----------
    structure : Structure or CompiledStructure
    X, y : object
        Data in the form that the structure takes; examples from all over them are used.
    candidates : callable or array, optional
        The labels among which the argmax must be the best. Plain structures: a function of x that
        returns labels. Compiled ones: an integer array with a label per row, or a function of the
        block's number that returns one. By default `labels(x)` of a plain structure that has it,
        and `all_labels` of a compiled one with an `exact_step`; otherwise what the argmax itself
        finds under many random weights, a weaker test, which an argmax that never finds the best
        label may pass.
    n_examples : int, default=5
        Examples to test.
    n_weights : int, default=5
        Random weights for each of them, besides w = 0.
    random_state : int or Generator, default=0

    Raises
    ------
    InvalidStructure
        A law is broken; the message says which, where, and what to do.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Structure, check_structure
    >>> class Sign(Structure):
    ...     def features(self, x, label):
    ...         return label * x
    ...     def loss(self, truth, label):
    ...         return float(truth != label)
    ...     def argmax(self, x, w, truth=None):
    ...         return 1 if w @ x > 0 else -1
    >>> check_structure(Sign(), np.eye(2), [-1, 1], candidates=lambda x: (1, -1))
    Traceback (most recent call last):
        ...
    taut.errors.InvalidStructure: Sign.argmax on example 0: with the truth it returns -1, whose
    score + loss is 0, while 1 has 1; return the label of highest score + loss
    """
    rng = np.random.default_rng(random_state)
    check_laws(_examples(structure, X, y, candidates, n_examples), n_weights, rng)


def check_laws(examples: Iterable[Example], n_weights: int, rng: np.random.Generator) -> None:
    """Raise the first law that examples break."""
    n_features = None
    for example in examples:
        phi = _features(example, example.truth, n_features)
        n_features = len(phi)
        weights = example.admissible(_weights(n_weights, phi, rng))
        example.enumerate_labels(n_features, rng)
        losses = _losses(example)
        scores, sizes = _scores(example, weights)
        _check_repeatable(example, losses, phi)
        example.check_features(weights, scores, sizes, rng)
        for w, score, size in zip(weights, scores, sizes, strict=True):
            _check_argmax(example, w, score + losses, size + losses, with_loss=True)
            if ability(example.structure, "scores_predict"):
                _check_argmax(example, w, score, size, with_loss=False)
        for w in weights:
            _check_complete(example, w)
        example.check_more(weights, scores, sizes, rng)
        example.check_untouched()


def _examples(
    structure: Structure | CompiledStructure,
    X: Any,
    y: Any,
    candidates: Candidates | None,
    n_examples: int,
) -> Iterator[Example]:
    """Examples from all over the data."""
    if isinstance(structure, CompiledStructure):
        blocks = structure.encode(X, y)
        digests = dict(digests_of(blocks.data))
        blank = None if structure.oracles.complete is None else structure.encode(X)
        listed = labels_of(structure, blocks) if structure.lists_labels else None
        lower = structure.lower(blocks)
        for i in _spread(n_examples, blocks.n_blocks):
            example = CompiledExample(structure, i, blocks, candidates, digests, blank, listed)
            if lower is not None:
                example.lower = lower
            yield example
    else:
        # A data frame is indexed by name.
        X, y = (part.to_numpy() if hasattr(part, "to_numpy") else part for part in (X, y))
        check_signatures(structure)
        if isinstance(structure, Structure):
            X = structure.examples(X, y)
        for i in _spread(n_examples, len(X)):
            yield PlainExample(structure, i, X[i], y[i], candidates)


def _weights(n_weights: int, phi: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """w = 0, where the loss alone decides, and weights under which it counts much, some, little."""
    scale = np.geomspace(0.1, 10.0, n_weights) / (np.linalg.norm(phi) or 1.0)
    return np.vstack([np.zeros(len(phi)), scale[:, None] * rng.normal(size=(n_weights, len(phi)))])


def _losses(example: Example) -> np.ndarray:
    """The loss of each label, the truth's first."""
    losses = np.array([example.loss(label) for label in example.labels])
    if abs(losses[0]) > PRECISION:
        example.fail(
            "loss", f"the truth {example.name(example.truth)} costs {losses[0]:g}", "return 0"
        )
    least = -np.finfo(float).max if ability(example.structure, "signed_losses") else 0.0
    for label, loss in zip(example.labels, losses, strict=True):
        if not least <= loss < np.inf:
            example.fail(
                "loss", f"label {example.name(label)} costs {loss:g}", "return a finite number >= 0"
            )
    return losses


def _check_repeatable(example: Example, losses: np.ndarray, phi: np.ndarray) -> None:
    """Losses and features are the same when asked for again."""
    for label, loss in zip(example.labels, losses, strict=True):
        again = example.loss(label)
        if abs(again - loss) > PRECISION * (1.0 + abs(loss)):
            example.fail(
                "loss",
                f"label {example.name(label)} costs {loss:g}, and {again:g} when asked again",
                "return the same for the same input, without chance or state",
            )
    twin = _features(example, example.truth, len(phi))
    if np.abs(twin - phi).max(initial=0.0) > PRECISION * (1.0 + np.abs(phi).max(initial=0.0)):
        example.fail(
            example.features_name,
            "those of the truth differ when asked for again",
            "return the same for the same input, without chance or state",
        )


def _features(example: Example, label: Any, n_features: int | None) -> np.ndarray:
    phi = example.features(label)
    if phi.ndim != 1 or len(phi) != (n_features or len(phi)):
        first = "" if n_features is None else f", those of example 0's truth ({n_features},)"
        example.fail(
            example.features_name,
            f"those of label {example.name(label)} have shape {phi.shape}{first}",
            "return a 1-D array of one length for all inputs",
        )
    if not np.isfinite(phi).all():
        where = int(np.flatnonzero(~np.isfinite(phi))[0])
        example.fail(
            example.features_name,
            f"feature {where} of label {example.name(label)} is {phi[where]}",
            "return finite numbers",
        )
    return phi


def _scores(example: Example, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """<w, phi(label)>, and the sum of the sizes of its terms, for each w and label."""
    scores = np.empty((2, len(weights), len(example.labels)))
    for q, label in enumerate(example.labels):
        phi = _features(example, label, weights.shape[1])
        scores[0, :, q], scores[1, :, q] = weights @ phi, np.abs(weights) @ np.abs(phi)
    return scores[0], scores[1]


def _check_argmax(
    example: Example, w: np.ndarray, values: np.ndarray, sizes: np.ndarray, with_loss: bool
) -> None:
    given = w.copy()
    label, claimed, error = example.argmax(given, with_loss)
    what = "score + loss" if with_loss else "score"
    how = "with the truth" if with_loss else "without the truth"
    if not np.array_equal(w, given):
        example.fail("argmax", f"{how} it modifies w", "work on a copy of w")
    phi = _features(example, label, len(w))
    value = float(w @ phi) + with_loss * example.loss(label)
    slack = PRECISION * (1.0 + sizes.max() + np.abs(w) @ np.abs(phi))
    best = int(values.argmax())
    if not 0.0 <= error < np.inf:
        example.fail("bounded_argmax", f"{how} it returns the error {error}", "return one >= 0")
    if not values[best] <= value + error + slack:
        within = f" and whose error is {error:.3g}" if error else ""
        example.fail(
            "bounded_argmax" if error else "argmax",
            f"{how} it returns {example.name(label)}, whose {what} is {value:.9g}{within}, while "
            f"{example.name(example.labels[best])} has {values[best]:.9g}",
            f"return the label of highest {what}"
            + (", or a larger error" if error else "")
            + (", or list labels that the example has" if example.listed is not None else ""),
        )
    if claimed is not None and not abs(claimed - value) <= slack:
        example.fail(
            "argmax",
            f"{how} it returns the value {claimed:.9g} for {example.name(label)}, whose {what} is "
            f"{value:.9g}",
            f"return the {what} of the label",
        )


def _check_complete(example: Example, w: np.ndarray) -> None:
    label = example.complete(w)
    if label is None:
        return
    names = example.name(label), example.name(example.truth)
    loss = example.loss(label)
    if not abs(loss) <= PRECISION:
        example.fail(
            "complete",
            f"it makes {names[0]} of the truth {names[1]}, which costs {loss:g}",
            "change the latent part only",
        )
    phi, right = (example.completed_features(each) for each in (label, example.truth))
    if not w @ right <= w @ phi + PRECISION * (1.0 + np.abs(w) @ (np.abs(phi) + np.abs(right))):
        example.fail(
            "complete",
            f"it returns {names[0]}, whose score is {w @ phi:.9g}, while the truth {names[1]} has "
            f"{w @ right:.9g}",
            "return the latent part of highest score",
        )


def _spread(count: int, n: int) -> list[int]:
    """Some of n numbers from the first to the last: examples may be sorted by their truths."""
    return np.linspace(0, n - 1, min(count, n)).astype(int).tolist()
