"""Which nodes make up a running system, and how to start them without `launch`."""
