"""One function for each job, called by the command line, the nodes and the demo."""
