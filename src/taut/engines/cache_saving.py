"""How a cache is saved, and restored from what is read."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from taut.data.chunks import check_columns, from_columns
from taut.duals import KEPT_FORMS
from taut.engines.holders import Bare, Resting, Segment
from taut.engines.naming import Arrays, named, of_parts
from taut.engines.part import Part
from taut.errors import InvalidContent, InvalidData
from taut.storage.stored import Stored, check, check_near, require

if TYPE_CHECKING:
    from taut.engines.cache import Cache

_ROUNDING = 1e-6  # relative, of sums that are made again
_COLUMN = "column."  # begins the names of a segment's columns, where they are saved
_NUMBERS = (
    "passes", "position", "explored", "explored_in_pass", "optimising", "ended", "rounds", "scale",
    "primal", "excess", "n_seen", "n_left", "n_explored", "fresh_gap", "least_gap", "waited",
)  # fmt: skip


def arrays_of(cache: Cache) -> Arrays:
    """Everything, as named arrays; features only where they cannot be read again.

    Segments are parts with the numbers of their blocks; bare and resting blocks are parts with the
    number of their chunk, and where in it they are.
    """
    resting, parts = cache.resting, [_saved(cache, segment) for segment in cache.segments]
    for bare in cache.bare:
        parts.append({"chunk": np.array(bare.number), "where": bare.where} | bare.part.arrays())
    for number, found in resting.groups.items():
        parts += [{"chunk": np.array(number), "where": where} | own for where, own in found]
    arrays = {
        "w": cache.w,
        "order": cache.order,
        "chunks": np.array([[k, first] for k, first in cache.firsts.items()]).reshape(-1, 2),
        "numbers": np.array([float(getattr(cache, name)) for name in _NUMBERS]),
        "resting_loss": np.array(resting.loss),
    }
    if resting.vector is not None:
        arrays["resting_vector"] = resting.vector
    return arrays | named(dict(enumerate(parts)))


def _saved(cache: Cache, segment: Segment) -> Arrays:
    columns = {} if cache.problem.repeatable else segment.chunk.columns()
    own = {_COLUMN + name: array for name, array in columns.items()}
    return own | {"ids": segment.ids} | segment.part.arrays()


def restore(cache: Cache, arrays: Arrays) -> None:
    """Go on exactly where `arrays` were taken."""
    check(
        arrays,
        {
            "numbers": Stored("f8", (len(_NUMBERS),), -1.0, infinite=True),
            "order": Stored("i8", (None,), 0, cache.problem.n_parts - 1),
        },
    )
    finite = np.array([isinstance(getattr(cache, name), int) for name in _NUMBERS])
    require(np.isfinite(arrays["numbers"][finite]), "counts are not finite")
    require(np.isin(np.bincount(arrays["order"]), [0, 1]), "the order has a chunk twice")
    cache.restore_w(arrays)
    _restore_blocks(cache, arrays, hot=False)
    cache.order = arrays["order"]
    for name, value in zip(_NUMBERS, arrays["numbers"].tolist(), strict=True):
        setattr(cache, name, type(getattr(cache, name))(value))


def hot_start(cache: Cache, arrays: Arrays, same_weights: bool) -> None:
    """The dual point of another solve of the same blocks, scaled to these weights.

    Blocks that rest cannot be scaled without their features: under other weights they begin anew.
    So do bare ones whose new weights cannot be read.
    """
    if "chunks" not in arrays:
        raise InvalidData(
            "the start was made by a solver that keeps all blocks: start from a solve with "
            "online_cache, or from nothing (warm_start=False)"
        )
    _restore_blocks(cache, arrays, hot=True, rests=same_weights)


def _restore_blocks(cache: Cache, arrays: Arrays, hot: bool, rests: bool = True) -> None:
    check(arrays, {"chunks": Stored("i8", (None, 2), 0), "resting_loss": Stored("f8", ())})
    cache.firsts = {int(k): int(first) for k, first in arrays["chunks"]}
    cache.segments, cache.bare, cache.resting = [], [], Resting()
    for own in of_parts(arrays).values():
        bare = "kept_size" in own
        if "where" not in own:
            cache.segments.append(_restored(cache, own, hot))
        elif rests or (bare and cache.problem.repeatable):
            check(own, {"chunk": Stored("i8", (), 0), "where": Stored("i8", (None,), 0)})
            number, where = int(own.pop("chunk")), own.pop("where")
            require(number in cache.firsts, "there are no such chunks")
            require(len(where) > 0 and (np.diff(where) > 0).all(), "blocks are not in order")
            if bare:
                cache.bare.append(Bare(number, where, _bare_part(cache, number, where, own, hot)))
            else:
                cache.resting.put(number, where, own)
    if rests:
        cache.resting.loss = float(arrays["resting_loss"])
        cache.resting.vector = arrays.get("resting_vector")
    if cache.resting.vector is not None:
        check(arrays, {"resting_vector": Stored("f8", (len(cache.w),))})
    _check_blocks(cache)


def _restored(cache: Cache, arrays: Arrays, hot: bool) -> Segment:
    check(arrays, {"ids": Stored("i8", (None,), 0)})
    ids, problem = arrays.pop("ids"), cache.problem
    require(len(ids) > 0 and (np.diff(ids) > 0).all(), "kept blocks are not in order")
    columns = {k.removeprefix(_COLUMN): arrays.pop(k) for k in list(arrays) if _COLUMN in k}
    if problem.repeatable:
        chunk = problem.source.take(ids)
    elif columns:
        check_columns(columns, problem.source.n_features or 0)
        chunk = from_columns(columns, -1, -1, problem.source.n_features or 0)
    else:
        raise InvalidContent("the kept blocks of a stream that is read only once are missing")
    require(chunk.n_blocks == len(ids), "kept blocks are miscounted")
    bound = problem.bind(chunk)
    part = cache.part_of(bound.data, bound.weight)
    (part.hot_start if hot else part.restore)(arrays)
    return Segment(ids, chunk, part)


def _bare_part(cache: Cache, number: int, where: np.ndarray, arrays: Arrays, hot: bool) -> Part:
    """The part of bare blocks; their features, where they can be read, tell what psi must be."""
    problem, ids = cache.problem, cache.firsts[number] + where
    check(arrays, {"weight": Stored("f8", where.shape, 0.0)})
    weight = arrays["weight"]
    any_duals: Any = cache.part_of(problem.data, np.ones(1)).duals
    form = KEPT_FORMS.get(type(any_duals))
    if form is None:
        raise InvalidContent("psi are kept where dual variables have another form")
    form.check_stored(arrays, weight, problem.data.size)
    duals = form(problem.data, weight, arrays, any_duals.step, any_duals.max_steps)
    if problem.repeatable:
        require(ids[-1] < (problem.n_blocks or np.inf), "there are no such blocks")
        bound = problem.bind(problem.source.take(ids))
        duals.check_features(cache.part_of(bound.data, weight).duals)
        require((bound.weight == weight) | hot, "weights differ from those of the data")
        duals.weight = bound.weight
    part = Part(cache.ascent, duals)
    (part.hot_start if hot else part.restore)(arrays)
    return part


def _check_blocks(cache: Cache) -> None:
    """Refuse blocks that are there twice, or whose chunks and sums are others.

    By a reading, where there can be one; otherwise nothing of them is ever used again.
    """
    firsts, resting, problem = cache.firsts, cache.resting, cache.problem
    found = [segment.ids for segment in cache.segments]
    found += [firsts[bare.number] + bare.where for bare in cache.bare]
    found += [firsts[k] + where for k, groups in resting.groups.items() for where, _ in groups]
    ids = np.concatenate([np.empty(0, np.int64), *found])
    require(len(np.unique(ids)) == len(ids), "blocks are kept twice")
    if not problem.repeatable:
        return
    loss, U, seen = 0.0, np.zeros(len(cache.w)), set()
    order = sorted(firsts) if problem.random_access else None
    with closing(problem.source.chunks(order)) as chunks:
        for chunk in chunks:
            if chunk.number not in firsts:
                continue
            seen.add(chunk.number)
            require(firsts[chunk.number] == chunk.first, "chunks begin elsewhere")
            for where, arrays in resting.groups.get(chunk.number, []):
                require(where[-1] < chunk.n_blocks, "resting blocks are not in their chunk")
                bound = problem.bind(chunk.take(where))
                part = cache.part_of(bound.data, bound.weight)
                part.duals.check(arrays, bound.weight)
                part.put(np.arange(len(where)), arrays)
                loss += part.sum_up(U)
    require(seen == firsts.keys(), "there are no such chunks")
    vector = np.zeros(len(U)) if resting.vector is None else resting.vector
    fault = "the dual variables of resting blocks have other sums"
    check_near(vector, U, _ROUNDING, fault)
    check_near(resting.loss, loss, _ROUNDING, fault)
