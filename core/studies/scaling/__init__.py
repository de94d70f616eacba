"""The scaling study: one device against several that divide each batch among them."""
