"""Plots; matplotlib is imported when one is drawn."""

from hypersphere.figures.anatomy import plot
from hypersphere.figures.growth import Curve, GrowthPanel, draw_growth
from hypersphere.figures.spheres import Panel, Strip, draw_spheres

__all__ = ["Curve", "GrowthPanel", "Panel", "Strip", "draw_growth", "draw_spheres", "plot"]
