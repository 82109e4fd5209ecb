"""What is owed: price books, charges, periods, invoices and their documents."""
