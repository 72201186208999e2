"""What trainers that run transformers' Trainer through Accelerate share."""
