"""The manual: pages for people, and reference pages made from the code."""
