"""Training on several ranks: parallel models, and the exchange of what each rank has observed."""
