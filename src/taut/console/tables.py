"""Small tables for notebooks."""

import html
from collections.abc import Mapping

_STYLE = "text-align: left; padding: 0.1em 1em 0.1em 0; vertical-align: top"


def html_table(title: str, rows: Mapping[str, str]) -> str:
    """A table with a name and a value in each row, as HTML that needs no style sheet.

    Examples
    --------
    >>> table = html_table("Sizes", {"width": "< 3"})
    >>> "Sizes" in table, "&lt; 3" in table
    (True, True)
    """
    lines = "".join(
        f'<tr><th style="{_STYLE}">{html.escape(name)}</th>'
        f'<td style="{_STYLE}">{html.escape(value)}</td></tr>'
        for name, value in rows.items()
    )
    return f"<table><caption>{html.escape(title)}</caption><tbody>{lines}</tbody></table>"
