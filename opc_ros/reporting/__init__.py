"""Pages and figures made from the results of a scoring run."""
