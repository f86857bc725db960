"""The coding domain: repair a small repository so that its hidden tests pass."""
