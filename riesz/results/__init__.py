"""The results of a fit, in the words that statsmodels' users know.

``parameters`` holds what everything with a covariance matrix has; ``core`` the estimates of a fit; ``diagnoses`` what it says
about itself; ``confounding`` what an unmeasured confounder could do; ``tables`` what is printed; ``heterogeneity`` effects in
groups; ``drawing`` pictures; ``forecast`` new rows; ``storing`` files. :class:`Results` puts the parts together.
"""
