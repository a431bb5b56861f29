"""Where test and benchmark data come from."""
