"""How good is the search? Generated landscapes, several strategies, one clock."""
