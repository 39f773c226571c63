"""The explorer: one ES module as a page of a small server, as a notebook widget and as a static page."""
