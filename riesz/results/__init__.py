"""The results of a fit, with the names that statsmodels uses.

``fit`` holds :class:`Results`, ``effects`` what is derived from it, ``parameters`` what both have in common. The other files hold
the functions that their methods call, on the ``parts`` of a fit.
"""
