"""Tests of estimates of training steps."""
