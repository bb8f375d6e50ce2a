"""The results of a fit, with the names that statsmodels uses.

``fit`` holds :class:`Results`, ``effects`` the parameters derived from a fit, and ``parameters`` the methods that both share. The
other files hold the functions that these methods call; most take the ``parts`` of a fit.
"""
