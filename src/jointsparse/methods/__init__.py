"""The methods, one file each; :mod:`jointsparse.methods.registry` lists them."""
