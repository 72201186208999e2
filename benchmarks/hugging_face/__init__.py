"""What training by transformers' Trainer and Accelerate holds in memory."""
