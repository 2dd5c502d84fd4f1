"""The opc command."""
