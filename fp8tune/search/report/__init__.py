"""The report of a search: one HTML page without network, remade from its study."""
