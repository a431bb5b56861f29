"""The covering indexes: who covers this subscription, and whom does it cover. One contract, five structures."""
