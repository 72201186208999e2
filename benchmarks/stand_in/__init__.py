"""Whether the built-in trial is KempnerForge's own training: losses, memory, speed.

``TRAINER_PYTHON -m benchmarks.stand_in CHECKOUT --record`` needs a Python with torch
and torchao, and a checkout of KempnerForge. Each case of ``cases.py`` is one config
that both programs get, with the same data: ``scripts/train.py`` as it is
(``by_trainer.py``), and the built-in trial (``as_trial.py``). Both draw their weights
with the config's seed. Every rank is a process of its own, watched in one way
(``watch.py``). Where a case has several ranks, a trial of rank 0 alone, of simulated
ranks, is compared too. With ``--device cuda`` the cases of one rank run on a GPU.
"""
