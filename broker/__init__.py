"""The query processor: query text in, plan out; XML in, results out.

Imports neither Spark nor Kafka, so that every algorithm can be run, tested and measured alone.
"""
