"""The closed-form learner: ridge regressions that are linear in the formula's columns."""
