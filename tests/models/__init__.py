"""Models and accelerators. A package, so that its file names may be used in other folders too."""
