"""Organizations, projects and the namespaces that belong to them."""
