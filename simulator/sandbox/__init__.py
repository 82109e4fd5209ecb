"""The sandbox: a third cluster of the demo, in which quota can be tried by hand."""
