"""Features of sequences, texts and dictionaries, as CSR matrices with named columns."""

from taut.features.base import Extractor
from taut.features.sequences import SequenceFeatures
from taut.features.templates import read_template, shape, window_template
from taut.features.texts import RowFeatures, TextFeatures

__all__ = [
    "Extractor",
    "RowFeatures",
    "SequenceFeatures",
    "TextFeatures",
    "read_template",
    "shape",
    "window_template",
]
