"""A self-contained HTML page about one or more runs."""

from mgp.report.page import write_report

__all__ = ["write_report"]
