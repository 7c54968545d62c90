"""The encoding of documents and values as bytes."""
