"""A user's own data: files of arrays, TFRecords and images."""
