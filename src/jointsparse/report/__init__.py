"""What a fit found, as one HTML file: reads results, never fits."""

from jointsparse.report.report import Report

__all__ = ["Report"]
