"""Whatever it is given, ``fp8tune lint`` ends in order.

Exit code 0, 1 or 2; no traceback; nothing on the terminal that acts on it; JSON
that parses.
"""
