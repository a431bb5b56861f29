"""Subscriptions as arrays: how they are laid out, built, stored, evaluated and explained."""
