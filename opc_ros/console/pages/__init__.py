"""One module for each page: its routes, and the typed JSON behind it."""
