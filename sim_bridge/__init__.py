"""PyBullet twin of a KUKA arm over a bin of objects."""
