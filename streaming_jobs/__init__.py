"""The Spark Structured Streaming job around the broker. Imports `broker` and `subscriptions`."""
