"""What the command line, the nodes and the demo all call: one function for each job of the product."""
