"""What learners see of a design: its treatment and covariates as numeric inputs, at the observed rows and at every reading."""
