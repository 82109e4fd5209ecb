"""Pages under /app/ for members and leads of projects and administrators of organizations."""
