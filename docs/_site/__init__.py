"""What the site is made of beyond Sphinx and its extensions."""
