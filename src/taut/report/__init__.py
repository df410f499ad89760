"""Pages about models: one HTML file each, without scripts and without anything from elsewhere."""

from taut.report.page import write_report

__all__ = ["write_report"]
