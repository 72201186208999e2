"""Run the experiments that the rules carry, and record what they show.

``python -m benchmarks.rule_evidence CHECKOUT`` needs a Python with the trainer's
requirements. Every run is the trainer's own ``scripts/train.py`` in processes of its
own, with a config small enough for seconds. On the CPU three of its calls, which
insist on CUDA, are answered for it (``worker.py``); nothing else is changed.
"""
