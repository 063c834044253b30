"""Settings and the files a person edits: read strictly, explained with file and line."""
