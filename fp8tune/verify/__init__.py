"""Whether FP8 ran in a training run, why a run failed, and how its loss went.

``log`` and ``trace`` read what a run left behind as ``evidence``; ``verdict`` judges
it.
"""
