"""The whole loop on one machine: what `opc demo` brings up, does and tells."""
