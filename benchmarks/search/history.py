"""How the strategy came about, in words: what the table does and does not prove."""

HISTORY = """TODO"""
