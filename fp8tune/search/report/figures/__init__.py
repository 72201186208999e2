"""The plots of a report, one module each, drawn by matplotlib without a display."""
