"""Events become key arrays: mappings one by one, frames by whole columns."""
