"""SVM-hmm files: ``tag qid:sequence index:value ...``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from taut.readers import svmlight_lines as lines
from taut.readers.base import Part
from taut.readers.files import DataFile
from taut.readers.grouping import whole_groups
from taut.readers.svmlight import Svmlight


@dataclass(frozen=True, kw_only=True)
class SvmHmm(Svmlight):
    """svmlight lines of tokens: the target is a tag, and ``qid:`` numbers the sequence.

    The tokens of a sequence stand together.

    Parameters
    ----------
    zero_based, n_features
        As for svmlight.
    """

    name = "svm_hmm"
    suffixes = (".hmm", ".svmhmm")

    _queries = lines.PRESENT

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        """Never: rankings look the same."""
        return False

    def parts(self, file: DataFile, size: int) -> Iterator[Part]:
        """Whole sequences."""
        yield from whole_groups(file, super().parts(file, size), "sequence")
