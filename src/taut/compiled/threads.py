"""Calls that run at once, without the GIL."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


@functools.cache
def _pool(n_jobs: int) -> ThreadPoolExecutor:
    """Threads that stay: starting them takes longer than a small pass."""
    return ThreadPoolExecutor(n_jobs, thread_name_prefix="taut")


if hasattr(os, "register_at_fork"):  # not on Windows
    # A forked process has the pools, but none of their threads: who waited for them would hang.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def in_threads(run: Callable[..., Any], *arguments: Iterable[Any]) -> list[Any]:
    """As list(map(run, *arguments)), all calls at once; they should run without the GIL."""
    calls = list(zip(*arguments, strict=True))
    if len(calls) == 1:
        return [run(*calls[0])]
    return list(_pool(len(calls)).map(lambda call: run(*call), calls))


def numbered_ranges(n: int, n_jobs: int) -> tuple[range, list[int], list[int]]:
    """Number, first and last + 1 of up to n_jobs ranges that cover 0..n."""
    count = min(n, n_jobs)
    edges = [n * k // count for k in range(count + 1)]
    return range(count), edges[:-1], edges[1:]
