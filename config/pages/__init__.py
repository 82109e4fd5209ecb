"""What all pages have in common: their language, and the theme of the admin."""
