"""The command line: the one package that imports all the others, each where a command needs it."""
