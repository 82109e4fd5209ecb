"""How the admin writes dates: as logs, documents and the API do, never with names and noon."""
