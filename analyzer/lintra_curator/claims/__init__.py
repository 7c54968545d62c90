"""What a curator promises about the rows: claims, promises, and the numerical tools that they are computed with."""
