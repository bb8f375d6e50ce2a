"""Reads what users write as text: formulas, policies, contrasts and back-ticked names."""
