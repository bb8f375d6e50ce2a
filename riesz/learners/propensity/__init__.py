"""Classical double machine learning with scikit-learn models as a learner."""
