"""Run the command line as ``python -m fp8tune``."""

from fp8tune.program import main

main()
