"""Tests of what every process does around its work: start, watches that fall silent, end."""
