"""What commands that use Spark share."""
