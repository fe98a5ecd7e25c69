"""What plans do with a message."""
