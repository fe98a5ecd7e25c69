"""What one machine needs to run everything: Java, the jars, and a Kafka of its own."""
