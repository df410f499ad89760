"""CPU time to equal accuracy: methods tightened step by step, interleaved in one process.

A method has a stopping parameter. It is tightened over a grid until the method is accurate enough,
too slow, or out of iterations. The time for an accuracy is the smallest median CPU time among the
settings that reach it.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


def geometric_grid(loose: float, tight: float) -> list[float]:
    """Settings from loose to tight, three to a power of ten, the powers of ten among them."""
    count = round(3.0 * np.log10(loose / tight))
    return [float(f"{loose * 10.0 ** (-k / 3.0):.2g}") for k in range(count + 1)]


def cpu_time(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and its CPU seconds over all threads of this process."""
    began = time.process_time()
    result = call()
    return result, time.process_time() - began


def in_turns(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median CPU seconds of each call; one round before is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            taken = cpu_time(call)[1]
            if repeat > 0:
                seconds[name].append(taken)
    return {name: statistics.median(times) for name, times in seconds.items()}


@dataclass
class Run:
    """One training: its CPU seconds, its weights, and whether it ran out of iterations."""

    seconds: float
    w: np.ndarray
    capped: bool = False


@dataclass
class Method:
    """`train(setting, seed)`, the settings from loose to tight, and how far to go at least."""

    train: Callable[[float, int], Run]
    settings: Sequence[float]
    at_least: float = np.inf


@dataclass
class Point:
    """The repeats of one method at one setting."""

    setting: float
    seconds: list[float] = field(default_factory=list)
    suboptimality: list[float] = field(default_factory=list)
    capped: bool = False

    def add(self, run: Run, suboptimality: float) -> None:
        self.seconds.append(run.seconds)
        self.suboptimality.append(suboptimality)
        self.capped |= run.capped

    def reaches(self, accuracy: float) -> bool:
        return statistics.median(self.suboptimality) <= accuracy

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass
class Trace:
    """All settings tried of one method. `end` says why it went no further."""

    points: list[Point] = field(default_factory=list)
    end: str = ""

    def close(self, method: Method, accuracy: float, limit: float) -> None:
        """Set `end` if the last point is a reason to stop."""
        last = self.points[-1]
        if last.reaches(accuracy) and last.setting <= method.at_least:
            self.end = "accurate"
        elif last.capped:
            self.end = "out of iterations"
        elif max(last.seconds) > limit:
            self.end = "out of time"
        elif len(self.points) == len(method.settings):
            self.end = "out of settings"

    def seconds_to(self, accuracy: float) -> float | None:
        """The smallest median CPU time that reaches the accuracy; None if nothing does."""
        return min((p.median for p in self.points if p.reaches(accuracy)), default=None)

    def seconds_at(self, setting: float) -> float | None:
        """The median CPU time at one setting of the grid; None if it was not run."""
        return next((p.median for p in self.points if p.setting == setting), None)

    def longest(self) -> float:
        """The median CPU time of the slowest setting."""
        return max(p.median for p in self.points)


def sweep(
    methods: dict[str, Method],
    suboptimality: Callable[[np.ndarray], float],
    accuracy: float,
    *,
    repeats: int,
    limit: float,
    seed: int,
) -> dict[str, Trace]:
    """Tighten all methods together; at each step they take turns, `repeats` times."""
    traces = {name: Trace() for name in methods}
    for step in range(max(len(method.settings) for method in methods.values())):
        active = [name for name, trace in traces.items() if not trace.end]
        for name in active:
            traces[name].points.append(Point(methods[name].settings[step]))
        for repeat in range(repeats):
            for name in active:
                point = traces[name].points[-1]
                if max(point.seconds, default=0.0) <= limit:
                    run = methods[name].train(point.setting, seed + repeat)
                    point.add(run, suboptimality(run.w))
        for name in active:
            traces[name].close(methods[name], accuracy, limit)
    return traces


@dataclass
class Ratio:
    """Rival's time by ours. `sign` is > or < for a bound; no value: no rival got there."""

    value: float | None
    sign: str = ""

    def __str__(self) -> str:
        return "not reached" if self.value is None else f"{self.sign}{self.value:.3g}"


def time_ratio(ours: Trace, rivals: Sequence[Trace], accuracy: float) -> Ratio:
    """The fastest rival's CPU time to the accuracy, divided by ours.

    A rival that ran out of time counts with its slowest run, and gives a lower bound. Rivals that
    all ran out of iterations give no ratio.
    """
    own = ours.seconds_to(accuracy)
    sign = "" if own is not None else "<"
    own = own if own is not None else ours.longest()
    reached = [t for t in (rival.seconds_to(accuracy) for rival in rivals) if t is not None]
    if reached:
        return Ratio(min(reached) / own, sign)
    slow = [rival.longest() for rival in rivals if rival.end == "out of time"]
    if slow and not sign:
        return Ratio(min(slow) / own, ">")
    return Ratio(None)


def markdown(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = [list(header), ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def write_json(path: Path, content: Any) -> None:
    """Write JSON, dataclasses included, in a folder that need not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, default=asdict) + "\n")
