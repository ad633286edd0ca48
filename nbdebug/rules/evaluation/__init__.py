"""Rules about evaluation."""
