"""Brokers: content-based routing over an acyclic overlay of brokers, with clients at its edge.

messages.py   what clients and brokers say to each other, and its binary form
link.py       one end of a reliable, ordered link over a carrier that is cut, loses, repeats or reorders
"""
