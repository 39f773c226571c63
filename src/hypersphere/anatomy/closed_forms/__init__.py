"""Dissipation, weight and ratio straight from angles, where the papers give them."""

# Each of these registers its forms.
from hypersphere.anatomy.closed_forms import contrastive, energies, features, modified  # noqa: F401
from hypersphere.anatomy.closed_forms.forms import Components, Form, closed_form, list_closed_forms
from hypersphere.anatomy.closed_forms.settings import form_settings

__all__ = ["Components", "Form", "closed_form", "form_settings", "list_closed_forms"]
