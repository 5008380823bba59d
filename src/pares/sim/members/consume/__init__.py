"""Real consumers in simulated worlds: their topic is part of the world, and their users' handlers are tasks."""
