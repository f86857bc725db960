"""Recipes: YAML files with `extends`, profiles and overrides, as typed, frozen models.

`load_recipe` reads one; `load_for_machine` lets the machine choose the profile when none is named.
"""

from __future__ import annotations
