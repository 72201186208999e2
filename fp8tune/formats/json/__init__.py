"""JSON text, with the liberties of Hjson, to values, exact places and edited text."""
