"""Measurements with Axolotl itself."""
