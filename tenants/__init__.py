"""Who, where, may and did: organizations, projects, people, clusters, roles, tokens, audit."""
