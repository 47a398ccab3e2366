"""General-purpose codecs through numcodecs."""
