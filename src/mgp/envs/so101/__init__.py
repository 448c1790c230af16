"""Environments with the SO-101 arm: buttons round a table (`buttons/...`) and sorting by a cue (`sorting/...`)."""
