"""What commands do: one file for each command or group, named after it."""
