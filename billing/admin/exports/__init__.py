"""Admin pages of exports: the bundle of a month, and scheduled exports."""
