"""Tests that are served by one controller and one deregistrar, all of them."""
