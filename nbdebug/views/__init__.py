"""What is drawn: one dataclass of state and one JavaScript module for each picture."""
