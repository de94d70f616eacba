"""The scaling study: one device against several that share each batch out among them."""
