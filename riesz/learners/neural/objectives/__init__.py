"""What a network is trained for: each objective is its loss and how mu and rr are read out."""
