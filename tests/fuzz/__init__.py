"""Random tables, formulas, verbs and options: whatever is thrown at the package, it answers or refuses in plain words.

``cases`` draws a case from a seed, ``checks`` runs it and judges the outcome, ``test_fuzz`` runs 200 of them with the tests, and
``python -m fuzz`` (``make fuzz``) as many as asked for.
"""
