"""Plots; matplotlib is imported when one is drawn."""

from hypersphere.figures.spheres import Panel, Strip, draw_spheres

__all__ = ["Panel", "Strip", "draw_spheres"]
