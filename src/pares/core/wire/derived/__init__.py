"""What is made from a world for speed, and is no part of it."""
