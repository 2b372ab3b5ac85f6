"""What a log or a running job says, to a terminal or as a page that opens offline."""
