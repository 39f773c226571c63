"""Times and sizes in few characters."""

from __future__ import annotations


def ratio(value: float | None) -> str:
    """Three significant digits at most.

    >>> ratio(0.4567), ratio(12.34), ratio(123.4), ratio(0.00123), ratio(None)
    ('0.46', '12.3', '123', '0.001', '')
    """
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else _small(value)


def _small(value: float) -> str:
    return f"{value:.2f}" if value >= 0.095 else f"{value:.3f}"


def seconds(value: float | None) -> str:
    """
    >>> seconds(95.0), seconds(1.5), seconds(0.0123), seconds(45e-6), seconds(None)
    ('95.00 s', '1.50 s', '12.3 ms', '45 µs', '')
    """
    if value is None:
        return ""
    return f"{value:.2f} s" if value >= 1 else f"{1e3 * value:.1f} ms" if value >= 1e-3 else f"{1e6 * value:.0f} µs"


def size(value: float | None) -> str:
    """Bytes in decimal units.

    >>> size(12.3e9), size(2.5e6), size(345e6), size(4096), size(None)
    ('12.3 GB', '2.5 MB', '345 MB', '4 kB', '')
    """
    if value is None:
        return ""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if value >= unit:
            return f"{value / unit:.1f} {name}" if value < 100 * unit else f"{value / unit:.0f} {name}"
    return f"{value / 1e3:.0f} kB"
