"""Organizations, projects and namespace bindings over REST."""
