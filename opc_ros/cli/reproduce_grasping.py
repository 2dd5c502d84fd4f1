"""`opc reproduce grasping`: the paper's three grasping columns at this machine's scale."""
