"""Books in folders: segments in packed files, versions that share them, one commit point. Without pyspark."""
