"""The documentation as a test: its commands run, its tables agree with the code, its links lead somewhere."""
