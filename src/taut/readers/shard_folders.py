"""Folders that `taut.data.write_shards` has made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from taut.data.shards import open_shards
from taut.readers.base import Format, Part
from taut.readers.files import DataFile


@dataclass(frozen=True, kw_only=True)
class ShardFolder(Format):
    """Shards, chunk by chunk."""

    name = "shards"

    def parts(self, file: DataFile, size: int) -> Iterator[Part]:
        """Chunks, with labels as they were given."""
        if file.path is None or not file.is_folder:
            raise file.fault("is no folder of shards")
        source = open_shards(file.path)
        with closing(source.chunks()) as chunks:
            for chunk in chunks:
                lengths = None if chunk.offsets is None else np.diff(chunk.offsets)
                yield Part(chunk.X, source.labels(chunk), chunk.sample_weight, None, lengths)
