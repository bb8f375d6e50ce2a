"""The closed form in a reproducing kernel Hilbert space: mu and rr as combinations of kernel sections."""
