"""The demo: the real broker on a real Kafka, watched, and checked against Saxon."""
