"""prime-rl: the files of its commands ``sft``, ``rl`` and ``trainer``."""
