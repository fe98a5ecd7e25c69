"""Who wants what: subscription records and the compacted topic that stores them. Imports `broker`."""
