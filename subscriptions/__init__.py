"""Who wants what: subscription records and the topic that stores them. Imports `broker`."""
