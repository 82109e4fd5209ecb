"""Device figures and events of sealed hours, and credits for broken hardware."""
