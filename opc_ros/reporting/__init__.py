"""Pages and figures made from what a scoring run found."""
