"""gl: quota, cost, usage and invoices of a tenant on the command line."""
