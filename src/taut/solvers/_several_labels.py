"""Which labels a visit works on, for solvers whose visits work on several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

from taut.binding import CompiledData, Data, has_oracle
from taut.errors import InvalidData
from taut.sampling import Sampler, as_sampler

_SAMPLES = 10  # of a visit, where nothing is said and the labels are too many for all of them


@dataclass
class SeveralLabels:
    """The settings of such a solver."""

    n_samples: int | None = None
    sampler: str | Callable | Sampler = "auto"

    def __post_init__(self) -> None:
        if self.n_samples is not None and self.n_samples < 1:
            raise InvalidData(f"n_samples = {self.n_samples}: it must be at least 1, or None")

    @property
    def n_wanted(self) -> int:
        """How many labels to ask a sampler for."""
        return self.n_samples or _SAMPLES

    def sampler_of(self, data: Data) -> Sampler:
        """The sampler for data."""
        return as_sampler(self.sampler, data)

    def takes_all(self, data: Data) -> TypeGuard[CompiledData]:
        """Whether all labels are sampled, by a step that is exact over them."""
        own = self.sampler == "auto" and data.draws_labels
        wanted = self.sampler in ("auto", "all") and self.n_samples is None and not own
        return wanted and has_oracle(data, "exact_step")
