"""Who wants what: subscription records and the topic that stores them. Imports `broker`.

A record's way: `log` or `kafka_log` (bytes with an offset) -> `records` (checked) -> `apply` (what
it does to its key) -> `subscription_set` (all keys as of a version) -> `registry` (what is active
now, and what subscribers are told). `topics` names and makes the topics.
"""
