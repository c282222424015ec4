"""Tests of JSON read and written: examples, and whatever Hypothesis makes of them."""
