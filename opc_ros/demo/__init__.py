"""The whole loop on one machine: what `opc demo` starts, does and prints."""
