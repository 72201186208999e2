"""What is measured about Accelerate, transformers' Trainer and TRL."""
