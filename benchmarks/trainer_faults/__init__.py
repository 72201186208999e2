"""Measure what rules say of faults in the trainer that no error tells.

``python -m benchmarks.trainer_faults CHECKOUT`` needs a Python with the trainer's
requirements. Every run is the trainer's own ``scripts/train.py`` on one to four CPU
ranks, as in ``rule_evidence``; each rank keeps its weights and gradients, which are
compared here with those of another rank, of an earlier run, or of a run without the
cause of the fault.
"""
