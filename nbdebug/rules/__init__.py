"""The rulebook: one rule a file, in folders by family. Every file registers its rule when it is imported."""
