"""Rule hygiene on Spark: audit, backtest and merge more subscriptions than one process would like."""
