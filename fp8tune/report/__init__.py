"""The report of a search: a study as one HTML page that needs no network."""
