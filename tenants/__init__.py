"""Organizations, projects, people, clusters, roles, tokens, notifications, audit trail."""
