"""A page about a fitted model: what it is, how good, and what its certificate proves."""

from __future__ import annotations

import html
import os
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from taut.report.curves import curves_of
from taut.storage.text import text_file

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8883; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 600; width: 35%; }
.proof { background: var(--soft); border-radius: .5rem; padding: .75rem 1rem; }
svg { width: 100%; height: auto; } svg text { fill: currentColor; font-size: 12px; }
"""


def write_report(
    path: str | os.PathLike[str],
    model: Any,
    measures: Mapping[str, float] | None = None,
    *,
    title: str = "",
) -> None:
    """Write a page about a fitted model.

    The page is one HTML file. It needs no network, and browsers show it in light and dark, on
    phones and on paper.

    Parameters
    ----------
    path : path-like
        An existing file is replaced as a whole.
    model : fitted estimator
    measures : dict of float, optional
        How good the model is on test data, by name.
    title : str, optional
        By default the class of the model.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from taut import BinarySVM
    >>> model = BinarySVM(random_state=0).fit([[0.0], [1.0]], [0, 1])
    >>> page = Path(tempfile.mkdtemp()) / "page.html"
    >>> write_report(page, model, {"accuracy": 1.0})
    >>> "accuracy" in page.read_text(encoding="utf-8")
    True
    """
    text = page_of(model, measures or {}, title or type(model).__name__)
    with text_file(path) as file:
        file.write(text)


def page_of(model: Any, measures: Mapping[str, float], title: str) -> str:
    """The HTML of the page."""
    certificate = getattr(model, "certificate_", None)
    parts = [f"<h1>{html.escape(title)}</h1>", f"<p>{html.escape(type(model).__name__)}</p>"]
    if certificate is not None:
        parts += [
            f'<p class="proof">{html.escape(str(certificate))}<br>'
            f"{html.escape(certificate.message)}</p>",
            _section("Certificate", _certified(certificate)),
        ]
    history = getattr(model, "history_", None)
    if history is not None and len(history) > 1:
        parts += ["<h2>Training</h2>", curves_of(history)]
    if measures:
        parts.append(_section("Test", ((name, f"{value:.4g}") for name, value in measures.items())))
    given = model.get_params(deep=False)
    parts.append(_section("Parameters", ((name, repr(given[name])) for name in sorted(given))))
    parts.append(_section("Made with", _environment()))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _section(name: str, rows: Iterable[tuple[str, str]]) -> str:
    cells = "\n".join(
        f'<tr><th scope="row">{html.escape(key)}</th><td>{html.escape(_short(value))}</td></tr>'
        for key, value in rows
    )
    return f"<h2>{html.escape(name)}</h2>\n<table>\n{cells}\n</table>"


def _short(value: str) -> str:
    return value if len(value) <= 300 else f"{value[:300]} ..."


def _certified(certificate: Any) -> list[tuple[str, str]]:
    return [
        ("objective of the model", f"{certificate.primal:.8g}"),
        ("lower bound of all models", f"{certificate.dual:.8g}"),
        ("relative gap", f"{certificate.relative_gap:.2g}"),
        ("bounds", "exact" if certificate.exact else "estimated"),
        ("passes over the data", str(certificate.passes)),
        ("seconds", f"{certificate.seconds:.3g}"),
        ("seconds of compilation", f"{certificate.compile_seconds:.3g}"),
    ]


def _environment() -> list[tuple[str, str]]:
    return [
        ("taut", version("taut")),
        ("Python", platform.python_version()),
        ("numpy", np.__version__),
        ("numba", version("numba")),
        ("scikit-learn", version("scikit-learn")),
        ("system", platform.platform()),
        ("written", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
    ]
