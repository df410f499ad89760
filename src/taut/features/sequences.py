"""Features of the positions of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.data.sequences import Sequences
from taut.errors import InvalidData
from taut.features.base import Extractor
from taut.features.occurrences import Occurrences, attribute_occurrences
from taut.features.templates import Template, parse, window_template
from taut.features.tokens import TokenColumns, Tokens, as_tokens, template_occurrences

#: A column with more values than that holds words, one with fewer tags such as parts of speech.
_FEW = 200


class SequenceFeatures(Extractor):
    """Features of the positions of sequences, by templates or as positions list them.

    Takes a list of sequences, each a list of tokens, and returns their features as one CSR matrix
    that knows its sequences, which `ChainSVM` takes. A token is text, a list of texts (its columns
    by number), or a dictionary from columns to values. Numbers in it are features as they are.

    Parameters
    ----------
    template : list of str, "default" or None, default="default"
        Lines as of CRF++, such as ``U01:%x[-1,0]/%x[0,0]``: column 0 of the position before and of
        this one. Columns may have names: ``%x[0,pos]``. Besides ``%x`` there are ``%lower``,
        ``%shape``, ``%prefix[0,0,3]`` and ``%suffix[0,0,3]``. See `read_template` for files and
        `window_template` for lines to begin with. "default" looks two positions around, and for
        columns of words at prefixes, suffixes and shapes. With None positions list their own
        features: dictionaries (text makes ``key=text``, numbers are values), or lists of names.
    min_count : int, default=1
        Features that occur less often in training are left out.
    hashing : int, optional
        A number of columns, such as 2**20: features get the column that their name hashes to, there
        is nothing to learn, and those that collide are summed up.
    dtype : "float32" or "float64", default="float32"
        Of the values, and so of training.

    Attributes
    ----------
    template_ : list of str or None
        The lines that are applied.
    columns_ : Columns
        The names of the features that are kept, or the number of columns that names are hashed to.

    Examples
    --------
    >>> from taut.features import SequenceFeatures
    >>> X = [[("the", "DT"), ("cat", "NN")], [("cats", "NNS")]]
    >>> extractor = SequenceFeatures(template=["U0:%x[0,0]", "U1:%x[-1,1]/%x[0,1]"])
    >>> extractor.fit_transform(X).matrix.shape
    (3, 6)
    >>> extractor.get_feature_names_out().tolist()[:4]
    ['U0:the', 'U0:cat', 'U0:cats', 'U1:DT/NN']
    """

    def __init__(
        self,
        template: Sequence[str] | str | None = "default",
        *,
        min_count: int = 1,
        hashing: int | None = None,
        dtype: str = "float32",
    ) -> None:
        self.template = template
        self.min_count = min_count
        self.hashing = hashing
        self.dtype = dtype

    def _prepare(self, X: Any) -> Any:
        tokens = X if isinstance(X, Tokens) else as_tokens(X)
        if self.template is None:
            self.restore_template(None)
            return tokens
        columns = TokenColumns(tokens)
        lines = default_template(columns) if _is_default(self.template) else self.template
        self.restore_template(lines)
        return columns

    def restore_template(self, lines: Sequence[str] | None) -> None:
        """Let these lines be those that are applied."""
        if lines is not None:
            parse(lines)  # which refuses what is none
        self.template_ = None if lines is None else [line.strip() for line in lines]

    def _occurrences(self, X: Any) -> tuple[Occurrences, np.ndarray]:
        if not isinstance(X, Tokens | TokenColumns):
            X = as_tokens(X)
        if self.template_ is None:
            return attribute_occurrences(X.placed(), np.dtype(self.dtype)), X.offsets
        columns = X if isinstance(X, TokenColumns) else TokenColumns(X)
        templates = parse(self.template_)
        _check_columns(templates, columns)
        return template_occurrences(columns, templates), columns.offsets

    def _shaped(self, matrix: sp.csr_array, layout: np.ndarray) -> Sequences:
        return Sequences(matrix, layout)


def _is_default(template: Any) -> bool:
    return isinstance(template, str) and template == "default"


def default_template(columns: TokenColumns) -> list[str]:
    """Lines for tokens with these columns, of which the first one holds words.

    Words: the five around, pairs with a neighbour, beginnings and endings of up to four letters,
    shapes. Others with many values: the same without pairs. Tags: the five around, runs of two and
    three.
    """
    lines = ["U"]
    for k, (name, column) in enumerate(columns.texts.items()):
        if k == 0 or len(column.values) > _FEW:
            lines += window_template(name, reach=1, prefixes=4, suffixes=4, shapes=True)
        else:
            lines += window_template(name, ngrams=3)
    return lines


def _check_columns(templates: Sequence[Template], columns: TokenColumns) -> None:
    for template in templates:
        for macro in template.macros:
            if macro.view.column not in columns.texts:
                known = ", ".join(map(repr, columns.texts)) or "none"
                raise InvalidData(
                    f"the template asks for column {macro.view.column!r}, the tokens of X have "
                    f"columns of text {known}: name one of these, or give tokens that have it"
                )
