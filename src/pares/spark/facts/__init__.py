"""The facts that an audit stands on, by protocol."""
